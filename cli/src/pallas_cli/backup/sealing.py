"""Streams bytes into encrypted files of a store and back, in the format of age, without a file in between.

Producer, encryption and upload are joined by pipes, and each runs in a thread of its own. So the memory does not grow
with the data, and whoever is slowest sets the pace.
"""

import asyncio
import hashlib
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import BinaryIO

import pyrage
from pyrage import x25519

from pallas_cli.backup.store import Store
from pallas_cli.refused import Refused

_CHUNK = 256 * 1024


@dataclass(frozen=True, slots=True)
class Sealed:
    """An encrypted file: its size and SHA-256, and the size of what is in it."""

    size: int
    sha256: str
    plain: int


class Damaged(Refused):
    """A file of a backup is missing, or is not what the manifest says."""

    def __init__(self, path: str, why: str) -> None:
        super().__init__(f"{path}: {why}")


class _Counted:
    """Reads from a pipe and counts. After the end it raises if the writer has failed."""

    def __init__(self, source: BinaryIO) -> None:
        self._source = source
        self.size = 0
        self.digest = hashlib.sha256()
        self.failed = False

    def read(self, size: int = -1, /) -> bytes:
        data = self._source.read(size if size > 0 else _CHUNK)
        self.size += len(data)
        self.digest.update(data)
        if not data and self.failed:
            raise BrokenPipeError("what writes has failed")
        return data

    def __iter__(self) -> Iterator[bytes]:
        while data := self.read(_CHUNK):
            yield data


async def seal(
    store: Store, path: str, recipients: Sequence[x25519.Recipient], write: Callable[[BinaryIO], Awaitable[None]]
) -> Sealed:
    """Store what `write` writes, encrypted. If that fails, nothing is stored.

    Raises:
        Refused: the store cannot be written.
        Exception: whatever `write` raises.
    """
    plain, plain_end = _pipe()
    sealed, sealed_end = _pipe()
    counted, stored = _Counted(plain), _Counted(sealed)

    def encrypt() -> None:
        with plain, sealed_end:
            try:
                pyrage.encrypt_io(counted, sealed_end, recipients)
                sealed_end.flush()
            except BaseException:
                stored.failed = True
                raise

    def upload() -> None:
        with sealed:
            store.put(path, iter(stored))

    async def produce() -> None:
        with plain_end:
            try:
                await write(plain_end)
                await asyncio.to_thread(plain_end.flush)
            except BaseException:
                counted.failed = True
                raise

    await _all(asyncio.to_thread(upload), produce(), asyncio.to_thread(encrypt))
    return Sealed(stored.size, stored.digest.hexdigest(), counted.size)


async def unseal[T](
    store: Store,
    path: str,
    expected: Sealed,
    identities: Sequence[x25519.Identity],
    read: Callable[[BinaryIO], Awaitable[T]],
) -> T:
    """Decrypt a file into `read`, and check it. A fault may be noticed only after `read` has taken everything.

    Raises:
        Damaged: the file is missing or altered, or none of `identities` opens it.
    """
    sealed, sealed_end = _pipe()
    plain, plain_end = _pipe()
    counted = _Counted(sealed)

    def download() -> None:
        with sealed_end:
            try:
                for chunk in store.get(path):
                    sealed_end.write(chunk)
            except BaseException:
                counted.failed = True
                raise

    def decrypt() -> None:
        with sealed, plain_end:
            pyrage.decrypt_io(counted, plain_end, identities)
            plain_end.flush()

    async def consume() -> T:
        with plain:
            return await read(plain)

    try:
        await _all(asyncio.to_thread(download), asyncio.to_thread(decrypt), reading := asyncio.ensure_future(consume()))
    except (pyrage.DecryptError, OSError) as error:
        raise Damaged(path, f"cannot be decrypted with this key, or is damaged: {error}") from error
    if (counted.size, counted.digest.hexdigest()) != (expected.size, expected.sha256):
        raise Damaged(path, "its checksum is not that of the manifest")
    return await reading


async def check(store: Store, path: str, expected: Sealed) -> None:
    """Compare size and checksum of a file with the manifest, without a key.

    Raises:
        Damaged: it is missing or altered.
    """

    def digest() -> tuple[int, str]:
        size, whole = 0, hashlib.sha256()
        for chunk in store.get(path):
            size += len(chunk)
            whole.update(chunk)
        return size, whole.hexdigest()

    if await asyncio.to_thread(digest) != (expected.size, expected.sha256):
        raise Damaged(path, "its checksum is not that of the manifest")


async def chunks_of(source: BinaryIO, size: int) -> AsyncIterator[bytes]:
    """What comes out of a pipe, in chunks of `size` bytes."""
    while chunk := await asyncio.to_thread(source.read, size):
        yield chunk


def _pipe() -> tuple[BinaryIO, BinaryIO]:
    reading, writing = os.pipe()
    return os.fdopen(reading, "rb"), os.fdopen(writing, "wb")


async def _all(*works: Awaitable[object]) -> None:
    """Wait for all, and raise the first error that is not only the end of another one's pipe."""
    results = await asyncio.gather(*works, return_exceptions=True)
    errors = [result for result in results if isinstance(result, BaseException)]
    errors.sort(key=_is_consequence)
    if errors:
        raise errors[0]


def _is_consequence(error: BaseException) -> bool:
    return isinstance(error, OSError | pyrage.EncryptError | pyrage.DecryptError)
