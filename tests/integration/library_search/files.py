"""Small PDF files."""

import io

from pypdf import PdfWriter
from pypdf.generic import NameObject, StreamObject


def a_pdf(*pages: str, title: str | None = None, password: str | None = None) -> bytes:
    """A PDF with a line on each page."""
    streams = [f"BT /F1 12 Tf 72 700 Td ({text}) Tj ET".encode() for text in pages]
    count = len(pages)
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Count {count} /Kids [{' '.join(f'{4 + n} 0 R' for n in range(count))}] >>".encode(),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
        *(
            f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents {4 + count + n} 0 R"
            f" /Resources << /Font << /F1 3 0 R >> >> >>".encode()
            for n in range(count)
        ),
        *(b"<< /Length %d >>\nstream\n%s\nendstream" % (len(stream), stream) for stream in streams),
    ]
    body = b"%PDF-1.4\n"
    offsets: list[int] = []
    for number, each in enumerate(objects, 1):
        offsets.append(len(body))
        body += b"%d 0 obj\n%s\nendobj\n" % (number, each)
    table = b"".join(b"%010d 00000 n \n" % offset for offset in offsets)
    body += b"xref\n0 %d\n0000000000 65535 f \n%s" % (len(objects) + 1, table)
    body += b"trailer\n<< /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n" % (
        len(objects) + 1,
        body.index(b"xref\n0"),
    )
    if title is None and password is None:
        return body
    writer = PdfWriter(clone_from=io.BytesIO(body))
    if title is not None:
        writer.add_metadata({"/Title": title})
    if password is not None:
        writer.encrypt(password)
    written = io.BytesIO()
    writer.write(written)
    return written.getvalue()


def a_bomb(content: bytes, times: int) -> bytes:
    """A small PDF of one page that repeats `content` `times` times."""
    writer = PdfWriter(clone_from=io.BytesIO(a_pdf("text")))
    stream = StreamObject()
    stream.set_data(b"BT /F1 12 Tf " + content * times + b" ET")
    writer.pages[0][NameObject("/Contents")] = stream.flate_encode()
    written = io.BytesIO()
    writer.write(written)
    return written.getvalue()
