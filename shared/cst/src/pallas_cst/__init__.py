"""The language of pipelines (Constellation): parser, type checker, standard library, canonical form. No I/O."""
