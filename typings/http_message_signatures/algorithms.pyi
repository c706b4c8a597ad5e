from http_message_signatures import HTTPSignatureAlgorithm

ECDSA_P256_SHA256: type[HTTPSignatureAlgorithm]
ED25519: type[HTTPSignatureAlgorithm]
