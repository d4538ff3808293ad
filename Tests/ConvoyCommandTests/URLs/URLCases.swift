// URLs of http and https, their form by the URL standard, and the form that curl 7.88.1 sends.
//
// The URLs and the standard's answers are from web-platform-tests, url/resources/urltestdata.json, BSD-3-Clause
// licence, Copyright web-platform-tests contributors. The tables omit relative URLs, and URLs that the tests resolve
// against a base URL of the same scheme.

/// Tables of URLs, in which `\u` and four digits mean a UTF-16 code unit.
enum URLCases {
    /// URLs that both the standard and curl accept, each followed by `=` and the standard's spelling if it is another.
    static let sent = #"""
        http://user:pass@foo:21/bar;par?b#c https://test:@test =https://test@test/ https://:@test =https://test/
        http://f:/c =http://f/c http://f:0/c http://f:00000000000000/c =http://f:0/c
        http://f:00000000000000000000080/c =http://f/c http://&a:foo(b]c@d:2/ =http://&a:foo(b%5Dc@d:2/
        http://foo.com:b@d/ http://foo/path;a??e#f#g http://foo/abcd?efgh?ijkl http://[2001::1] =http://[2001::1]/
        http://[::127.0.0.1] =http://[::7f00:1]/ http://[0:0:0:0:0:0:13.1.68.3] =http://[::d01:4403]/
        http://example.com/././foo =http://example.com/foo http://example.com/foo/. =http://example.com/foo/
        http://example.com/foo/bar/.. =http://example.com/foo/ http://example.com/foo/..bar
        http://example.com/foo/bar/../ton/../../a =http://example.com/a
        http://example.com/foo/../../.. =http://example.com/ http://example.com/foo/%2e%2
        http://example.com////../.. =http://example.com// http://example.com/foo/bar//../.. =http://example.com/foo/
        http://example.com/%20foo http://example.com/foo% http://example.com/foo%2zbar
        http://example.com/foo%2\u00C2\u00A9zbar =http://example.com/foo%2%C3%82%C2%A9zbar http://example.com/foo%41%7a
        http://example.com/foo%00%51 http://example.com/(%28:%3A%29) http://example.com/%3A%3a%3C%3c
        http://example.com/%7Ffp3%3Eju%3Dduvgw%3Dd http://example.com/@asdf%40
        http://example.com/\u4F60\u597D\u4F60\u597D =http://example.com/%E4%BD%A0%E5%A5%BD%E4%BD%A0%E5%A5%BD
        http://example.com/\uFEFF/foo =http://example.com/%EF%BB%BF/foo
        http://example.com/\u202E/foo/\u202D/bar =http://example.com/%E2%80%AE/foo/%E2%80%AD/bar
        http://www.google.com/foo?bar=baz# http://192.0x00A80001 =http://192.168.0.1/ http://www/foo%2Ehtml
        http://%25DOMAIN:foobar@foodomain.com/ http://foo:80/ =http://foo/ https://foo:443/ =https://foo/
        https://foo:80/ http://@www.example.com =http://www.example.com/
        http://:b@www.example.com =http://:b@www.example.com/ http://a:@www.example.com =http://a@www.example.com/
        http://:@www.example.com =http://www.example.com/ http://ExAmPlE.CoM =http://example.com/
        http://GOO\u200B\u2060\uFEFFgoo.com =http://googoo.com/ http://www.foo\u3002bar.com =http://www.foo.bar.com/
        https://x/\uFFFD?\uFFFD#\uFFFD =https://x/%EF%BF%BD?%EF%BF%BD#%EF%BF%BD http://\uFF27\uFF4F.com =http://go.com/
        http://\u4F60\u597D\u4F60\u597D =http://xn--6qqa088eba/ https://fa\u00DF.ExAmPlE/ =https://xn--fa-hia.example/
        http://./ http://foo:\uD83D\uDCA9@example.com/bar =http://foo:%F0%9F%92%A9@example.com/bar
        http://`{}:`{}@h/`{}?`{} =http://%60%7B%7D:%60%7B%7D@h/%60%7B%7D?`{} https://%e2%98%83 =https://xn--n3h/
        http://foo.bar/baz?qux#foo"bar =http://foo.bar/baz?qux#foo%22bar http://192.168.257 =http://192.168.1.1/
        http://192.168.257.com =http://192.168.257.com/ http://256 =http://0.0.1.0/
        http://999999999 =http://59.154.201.255/ http://10000000000.com =http://10000000000.com/
        http://4294967295 =http://255.255.255.255/ http://0xffffffff =http://255.255.255.255/
        http://[1:0::] =http://[1::]/ http://0x7f.0.0.0x7g =http://0x7f.0.0.0x7g/
        http://[0:1:0:1:0:1:0:1] =http://[0:1:0:1:0:1:0:1]/ http://example.org/test?" =http://example.org/test?%22
        http://example.org/test?\u2323 =http://example.org/test?%E2%8C%A3 http://example.org/test?%GH
        http://foo.09.. =http://foo.09../ https://x/\uFFFFy =https://x/%EF%BF%BFy
        https://x/?#\uFFFFy =https://x/?#%EF%BF%BFy https://example.com/"quoted" =https://example.com/%22quoted%22
        https://a%C2%ADb/ =https://ab/
        """#

    /// URLs that both the standard and curl reject.
    static let refused = #"""
        http://f:b/c http://f:999999/c http://f:\u002021\u0020/\u0020b\u0020?\u0020d\u0020#\u0020e\u0020
        http://[1::2]:3:4 http://2001::1 http://[::127.0.0.1.] http://user:pass@/ http://foo:-80/
        http:/:@/www.example.com http://user@/www.example.com http://@/www.example.com http://@:www.example.com
        http://example\u0020example.com http://Goo%20\u0020goo%7C|.com http://[] http://GOO\u00A0\u3000goo.com
        http://\uFDD0zyx.com http://%ef%b7%90zyx.com https://%EF%BF%BD http://hello%00 http://[www.google.com]/
        http://[::1.2.3.4x] http://[::1.2.3.] http://[::.1.2] http://%5B::1] http://a<b http://a[b/ http://a^b
        http://a\u007Fb/ http://ho%20st/ http://ho%2Fst/ http://ho%3Ast/ http://ho%3Fst/ http://ho%40st/ http://ho%5Cst/
        https://example.com%80/ http: http://[0:1:2:3:4:5:6:7:8] https://[0::0::0] https://[0:0:]
        https://[0:1:2:3:4:5:6:7.0.0.0.1] https://[0:1.00.0.0.0] https://[0:1.290.0.0.0] http://? http://f:4294967377/c
        http://f:340282366920938463463374607431768211537/c http://[::127.0.0.0.1] https://\u00AD/ https://%C2%AD/
        """#

    /// URLs that the standard and curl parse differently, or that Convoy rejects although both accept them.
    ///
    /// A line has the URL, the standard's spelling, and the target that curl sends to a proxy. A `-` means that the
    /// standard or curl rejects the URL, and a `?` that curl cannot receive it: it reads a URL as a C string, which
    /// cannot contain a NUL. A last column has the target that Convoy sends if it is another. Lines with `#` say what
    /// Convoy chooses for the lines below, and why: the standard's way, curl's, a refusal, or its own.
    static let differing = #"""
        # refusal: The part before the path names the host that receives the request. Programs disagree about a host
        # that contains a control character, a backslash, a quote or a similar character. If one program checked it and
        # another sent to it, the check would have no effect.
        http://example\u0009.\u000Aorg http://example.org/ -
        http://f:\u000A/c http://f/c -
        http://ho\u0009st/ http://host/ -
        h\u0009t\u000At\u000Dp://h\u0009o\u000As\u000Dt:9\u00090\u000A0\u000D0/p\u0009a\u000At\u000Dh?q\u0009u\u000Ae\u000Dry#f\u0009r\u000Aa\u000Dg http://host:9000/path?query#frag -
        https://user:pass[\u007F@foo/bar https://user:pass%5B%7F@foo/bar -
        http:\u005C\u005Cfoo.com\u005C http://foo.com/ -
        http://a:b@c\u005C http://a:b@c/ -
        http://example.com\u005C\u005Cfoo\u005C\u005Cbar http://example.com//foo//bar -
        http://!"$&'()*+,-.;=_`{}~/ http://!"$&'()*+,-.;=_`{}~/ -
        # standard: A blank or NUL in a path or a query is percent-encoded, like other characters that a URL cannot
        # contain.
        http://f:21/\u0020b\u0020?\u0020d\u0020#\u0020e\u0020 http://f:21/%20b%20?%20d%20#%20e -
        http://a\u0000b/ - ?
        http://example.org/test?a#b\u0000c http://example.org/test?a#b%00c ?
        https://x/\u0000y https://x/%00y ?
        https://x/?#\u0000y https://x/?#%00y ?
        # standard: The part before the last @ is a user name with any characters. curl rejects such a URL.
        http://::@c@d:2 http://:%3A%40c@d:2/ -
        https://@test@test@example:800/ https://%40test%40test@example:800/ -
        https://@@@example https://%40%40@example/ -
        # curl: A backslash in a path is percent-encoded and stays in its segment. A slash would change the target.
        http://foo.com/\u005C@ http://foo.com//@ http://foo.com/\u005C@
        # refusal: A URL without // has no host, and a recipient rejects it (RFC 9110, section 4.2.1). In a page of
        # http, browsers read http:/a as a path. In http:a:b@h, curl reads http as the user name and a:b as the
        # password.
        https:/example.com/ https://example.com/ https://example.com:443/
        http:@www.example.com http://www.example.com/ http://www.example.com/
        http:/a:b@www.example.com http://a:b@www.example.com/ http://www.example.com/
        https:example.com/ https://example.com/ -
        # curl: %2e is sent unchanged.
        http://example.com/foo/%2e./%2e%2e/.%2e/%2e.bar http://example.com/%2e.bar http://example.com/foo/%2e./%2e%2e/.%2e/%2e.bar
        https://example.com/aaa/bbb/%2e%2e?query https://example.com/aaa/?query https://example.com:443/aaa/bbb/%2e%2e?query
        # own: A tab or a line end cannot be part of a URL, so it is percent-encoded. Browsers remove it, which changes
        # the URL.
        http://example.com/foo\u0009\u0091%91 http://example.com/foo%C2%91%91 - http://example.com:80/foo%09%C2%91%91
        https://www.example.com/path{\u007Fpath.html?query'\u007F=query#fragment<\u007Ffragment https://www.example.com/path%7B%7Fpath.html?query%27%7F=query#fragment%3C%7Ffragment - https://www.example.com:443/path%7B%7Fpath.html?query'%7F=query
        # standard: A fragment is not sent.
        http://foo.bar/baz?qux#foo\u0008bar http://foo.bar/baz?qux#foo%08bar -
        # refusal: Control characters around a URL: the text is probably not meant as a URL.
        \u0000\u001B\u0004\u0012\u0020http://example.com/\u001F\u0020\u000D\u0020 http://example.com/ ?
        # standard: A host that browsers reject: a name that IDNA rejects, a name with escapes of forbidden characters,
        # and a name that ends in a number but is not an address. An address has one spelling, so that it has one
        # origin.
        http://a.b.c.xn--pokxncvks - http://a.b.c.xn--pokxncvks/
        http://a.b.c.XN--pokxncvks - http://a.b.c.XN--pokxncvks/
        https://xn--/ - https://xn--:443/
        http://\uFF05\uFF14\uFF11.com - http://%2541.com/
        http://\uFF05\uFF10\uFF10.com - http://%2500.com/
        http://%zz%66%a.com - http://%2525zzf%2525a.com/
        http://%30%78%63%30%2e%30%32%35%30.01 http://192.168.0.1/ http://0xc0.0250.01/
        http://\uFF10\uFF38\uFF43\uFF10\uFF0E\uFF10\uFF12\uFF15\uFF10\uFF0E\uFF10\uFF11 http://192.168.0.1/ http://0xc0.0250.01/
        http://a%b/ - http://a%2525b/
        http://a|b/ - http://a|b/
        http://ho%7Cst/ - http://ho|st/
        http://ho%7Fst/ - http://ho\u007Fst/
        http://[::%31] - http://[::]/
        http://192.168.0.257 - http://192.168.0.257/
        http://1.2.3.4./ http://1.2.3.4/ http://1.2.3.4./
        http://4294967296 - http://4294967296/
        http://0xffffffff1 - http://0xffffffff1/
        https://0x.0x.0 https://0.0.0.0/ https://0x.0x.0:443/
        https://256.0.0.1/test - https://256.0.0.1:443/test
        http://1.2.3.4.5 - http://1.2.3.4.5/
        http://0..0x300/ - http://0..0x300/
        http://1.2.3.08 - http://1.2.3.08/
        http://09.2.3.4 - http://09.2.3.4/
        http://0x100.2.3.4 - http://0x100.2.3.4/
        http://foo.1.2.3.4 - http://foo.1.2.3.4/
        http://foo.09 - http://foo.09/
        http://foo.0x4 - http://foo.0x4/
        http://0999999999999999999/ - http://0999999999999999999/
        http://foo.0XFfFfFfFfFfFfFfFfFfAcE123 - http://foo.0XFfFfFfFfFfFfFfFfFfAcE123/
        http://\uD83D\uDCA9.123/ - http://xn--ls8h.123/
        # curl: ' is allowed in a query (RFC 3986, section 3.4).
        http://host/?' http://host/?%27 http://host/?'
        # standard: The URL keeps an empty query. libcurl omits it from the request.
        http://example.org/test?# http://example.org/test?# http://example.org/test
        """#
}
