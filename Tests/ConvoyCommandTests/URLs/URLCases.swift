// URLs of http and https, their form by the URL standard, and the form that curl 7.88.1 sends.
//
// The URLs and the standard's answers are from web-platform-tests, url/resources/urltestdata.json, BSD-3-Clause
// licence, Copyright web-platform-tests contributors. The tables omit relative URLs, and URLs that the tests resolve
// against a base URL of the same scheme.

/// URLs that the standard and curl parse alike.
enum URLCases {
    /// URLs that both the standard and curl accept.
    ///
    /// A line has the URL, the standard's spelling (`=` for the same), and the target that curl sends to a proxy.
    /// `\u` and four digits mean a UTF-16 code unit.
    static let sent = #"""
        http://user:pass@foo:21/bar;par?b#c = http://foo:21/bar;par?b
        https://test:@test https://test@test/ https://test:443/
        https://:@test https://test/ https://test:443/
        http://f:/c http://f/c http://f/c
        http://f:0/c = http://f:0/c
        http://f:00000000000000/c http://f:0/c http://f:0/c
        http://f:00000000000000000000080/c http://f/c http://f/c
        http://a:b@c:29/d = http://c:29/d
        http://&a:foo(b]c@d:2/ http://&a:foo(b%5Dc@d:2/ http://d:2/
        http://foo.com:b@d/ = http://d/
        http://foo/path;a??e#f#g = http://foo/path;a??e
        http://foo/abcd?efgh?ijkl = http://foo/abcd?efgh?ijkl
        http://foo/abcd#foo?bar = http://foo/abcd
        http://[2001::1] http://[2001::1]/ http://[2001::1]/
        http://[::127.0.0.1] http://[::7f00:1]/ http://[::127.0.0.1]/
        http://[0:0:0:0:0:0:13.1.68.3] http://[::d01:4403]/ http://[::13.1.68.3]/
        http://[2001::1]:80 http://[2001::1]/ http://[2001::1]/
        http://example.com/././foo http://example.com/foo http://example.com/foo
        http://example.com/./.foo http://example.com/.foo http://example.com/.foo
        http://example.com/foo/. http://example.com/foo/ http://example.com/foo/
        http://example.com/foo/./ http://example.com/foo/ http://example.com/foo/
        http://example.com/foo/bar/.. http://example.com/foo/ http://example.com/foo/
        http://example.com/foo/bar/../ http://example.com/foo/ http://example.com/foo/
        http://example.com/foo/..bar = http://example.com/foo/..bar
        http://example.com/foo/bar/../ton http://example.com/foo/ton http://example.com/foo/ton
        http://example.com/foo/bar/../ton/../../a http://example.com/a http://example.com/a
        http://example.com/foo/../../.. http://example.com/ http://example.com/
        http://example.com/foo/../../../ton http://example.com/ton http://example.com/ton
        http://example.com/foo/%2e%2 = http://example.com/foo/%2e%2
        http://example.com////../.. http://example.com// http://example.com//
        http://example.com/foo/bar//../.. http://example.com/foo/ http://example.com/foo/
        http://example.com/foo/bar//.. http://example.com/foo/bar/ http://example.com/foo/bar/
        http://example.com/foo = http://example.com/foo
        http://example.com/%20foo = http://example.com/%20foo
        http://example.com/foo% = http://example.com/foo%
        http://example.com/foo%2 = http://example.com/foo%2
        http://example.com/foo%2zbar = http://example.com/foo%2zbar
        http://example.com/foo%2\u00C2\u00A9zbar http://example.com/foo%2%C3%82%C2%A9zbar http://example.com/foo%2\u00C2\u00A9zbar
        http://example.com/foo%41%7a = http://example.com/foo%41%7a
        http://example.com/foo%00%51 = http://example.com/foo%00%51
        http://example.com/(%28:%3A%29) = http://example.com/(%28:%3A%29)
        http://example.com/%3A%3a%3C%3c = http://example.com/%3A%3a%3C%3c
        http://example.com/%7Ffp3%3Eju%3Dduvgw%3Dd = http://example.com/%7Ffp3%3Eju%3Dduvgw%3Dd
        http://example.com/@asdf%40 = http://example.com/@asdf%40
        http://example.com/\u4F60\u597D\u4F60\u597D http://example.com/%E4%BD%A0%E5%A5%BD%E4%BD%A0%E5%A5%BD http://example.com/\u4F60\u597D\u4F60\u597D
        http://example.com/\u2025/foo http://example.com/%E2%80%A5/foo http://example.com/\u2025/foo
        http://example.com/\uFEFF/foo http://example.com/%EF%BB%BF/foo http://example.com/\uFEFF/foo
        http://example.com/\u202E/foo/\u202D/bar http://example.com/%E2%80%AE/foo/%E2%80%AD/bar http://example.com/\u202E/foo/\u202D/bar
        http://www.google.com/foo?bar=baz# = http://www.google.com/foo?bar=baz
        http://www.google.com http://www.google.com/ http://www.google.com/
        http://192.0x00A80001 http://192.168.0.1/ http://192.168.0.1/
        http://www/foo%2Ehtml = http://www/foo%2Ehtml
        http://%25DOMAIN:foobar@foodomain.com/ = http://foodomain.com/
        http://foo:80/ http://foo/ http://foo/
        http://foo:81/ = http://foo:81/
        https://foo:443/ https://foo/ https://foo:443/
        https://foo:80/ = https://foo:80/
        http://@www.example.com http://www.example.com/ http://www.example.com/
        http://a:b@www.example.com http://a:b@www.example.com/ http://www.example.com/
        http://@pple.com http://pple.com/ http://pple.com/
        http://:b@www.example.com http://:b@www.example.com/ http://www.example.com/
        http://a:@www.example.com http://a@www.example.com/ http://www.example.com/
        http://www.@pple.com http://www.@pple.com/ http://pple.com/
        http://:@www.example.com http://www.example.com/ http://www.example.com/
        http://www.example2.com http://www.example2.com/ http://www.example2.com/
        http://ExAmPlE.CoM http://example.com/ http://ExAmPlE.CoM/
        http://GOO\u200B\u2060\uFEFFgoo.com http://googoo.com/ http://googoo.com/
        http://www.foo\u3002bar.com http://www.foo.bar.com/ http://www.foo.bar.com/
        https://x/\uFFFD?\uFFFD#\uFFFD https://x/%EF%BF%BD?%EF%BF%BD#%EF%BF%BD https://x:443/%ef%bf%bd?\uFFFD
        http://\uFF27\uFF4F.com http://go.com/ http://go.com/
        http://\u4F60\u597D\u4F60\u597D http://xn--6qqa088eba/ http://xn--6qqa088eba/
        https://fa\u00DF.ExAmPlE/ https://xn--fa-hia.example/ https://xn--fa-hia.example:443/
        http://./ = http://./
        http://../ = http://../
        http://foo:\uD83D\uDCA9@example.com/bar http://foo:%F0%9F%92%A9@example.com/bar http://example.com/bar
        http://`{}:`{}@h/`{}?`{} http://%60%7B%7D:%60%7B%7D@h/%60%7B%7D?`{} http://h/`{}?`{}
        https://%e2%98%83 https://xn--n3h/ https://xn--n3h:443/
        http://127.0.0.1:10100/relative_import.html = http://127.0.0.1:10100/relative_import.html
        http://facebook.com/?foo=%7B%22abc%22 = http://facebook.com/?foo=%7B%22abc%22
        https://localhost:3000/jqueryui@1.2.3 = https://localhost:3000/jqueryui@1.2.3
        http://foo.bar/baz?qux#foo"bar http://foo.bar/baz?qux#foo%22bar http://foo.bar/baz?qux
        http://foo.bar/baz?qux#foo<bar http://foo.bar/baz?qux#foo%3Cbar http://foo.bar/baz?qux
        http://foo.bar/baz?qux#foo>bar http://foo.bar/baz?qux#foo%3Ebar http://foo.bar/baz?qux
        http://foo.bar/baz?qux#foo`bar http://foo.bar/baz?qux#foo%60bar http://foo.bar/baz?qux
        http://1.2.3.4/ = http://1.2.3.4/
        http://192.168.257 http://192.168.1.1/ http://192.168.1.1/
        http://192.168.257.com http://192.168.257.com/ http://192.168.257.com/
        http://256 http://0.0.1.0/ http://0.0.1.0/
        http://256.com http://256.com/ http://256.com/
        http://999999999 http://59.154.201.255/ http://59.154.201.255/
        http://999999999.com http://999999999.com/ http://999999999.com/
        http://10000000000.com http://10000000000.com/ http://10000000000.com/
        http://4294967295 http://255.255.255.255/ http://255.255.255.255/
        http://0xffffffff http://255.255.255.255/ http://255.255.255.255/
        http://[1:0::] http://[1::]/ http://[1::]/
        http://0x7f.0.0.0x7g http://0x7f.0.0.0x7g/ http://0x7f.0.0.0x7g/
        http://0X7F.0.0.0X7G http://0x7f.0.0.0x7g/ http://0X7F.0.0.0X7G/
        http://[0:1:0:1:0:1:0:1] http://[0:1:0:1:0:1:0:1]/ http://[0:1:0:1:0:1:0:1]/
        http://[1:0:1:0:1:0:1:0] http://[1:0:1:0:1:0:1:0]/ http://[1:0:1:0:1:0:1:0]/
        http://example.org/test?" http://example.org/test?%22 http://example.org/test?"
        http://example.org/test?< http://example.org/test?%3C http://example.org/test?<
        http://example.org/test?> http://example.org/test?%3E http://example.org/test?>
        http://example.org/test?\u2323 http://example.org/test?%E2%8C%A3 http://example.org/test?\u2323
        http://example.org/test?%23%23 = http://example.org/test?%23%23
        http://example.org/test?%GH = http://example.org/test?%GH
        http://example.org/test?a#%EF = http://example.org/test?a
        http://example.org/test?a#%GH = http://example.org/test?a
        http://foo.09.. http://foo.09../ http://foo.09../
        https://x/\uFFFFy https://x/%EF%BF%BFy https://x:443/%ef%bf%bfy
        https://x/?\uFFFFy https://x/?%EF%BF%BFy https://x:443/?\uFFFFy
        https://x/?#\uFFFFy https://x/?#%EF%BF%BFy https://x:443/?
        https://example.com/"quoted" https://example.com/%22quoted%22 https://example.com:443/"quoted"
        https://a%C2%ADb/ https://ab/ https://ab:443/
        """#

    /// URLs that both the standard and curl reject.
    static let refused = #"""
        http://f:b/c
        http://f:\u0020/c
        http://f:fifty-two/c
        http://f:999999/c
        http://f:\u002021\u0020/\u0020b\u0020?\u0020d\u0020#\u0020e\u0020
        http://[1::2]:3:4
        http://2001::1
        http://2001::1]
        http://2001::1]:80
        http://[::127.0.0.1.]
        http://user:pass@/
        http://foo:-80/
        http:/:@/www.example.com
        http://user@/www.example.com
        http:@/www.example.com
        http:/@/www.example.com
        http://@/www.example.com
        https:@/www.example.com
        http:a:b@/www.example.com
        http:/a:b@/www.example.com
        http://a:b@/www.example.com
        http::@/www.example.com
        http:@:www.example.com
        http:/@:www.example.com
        http://@:www.example.com
        http://example\u0020example.com
        http://Goo%20\u0020goo%7C|.com
        http://[]
        http://[:]
        http://GOO\u00A0\u3000goo.com
        http://\uFDD0zyx.com
        http://%ef%b7%90zyx.com
        https://\uFFFD
        https://%EF%BF%BD
        http://hello%00
        http://192.168.0.1\u0020hello
        https://x\u0020x:12
        http://[www.google.com]/
        http://[google.com]
        http://[::1.2.3.4x]
        http://[::1.2.3.]
        http://[::1.2.]
        http://[::.1.2]
        http://[::1.]
        http://[::.1]
        http://%5B::1]
        http://a\u0001b/
        http://a\u0002b/
        http://a\u0003b/
        http://a\u0004b/
        http://a\u0005b/
        http://a\u0006b/
        http://a\u0007b/
        http://a\u0008b/
        http://a\u000Bb/
        http://a\u000Cb/
        http://a\u000Eb/
        http://a\u000Fb/
        http://a\u0010b/
        http://a\u0011b/
        http://a\u0012b/
        http://a\u0013b/
        http://a\u0014b/
        http://a\u0015b/
        http://a\u0016b/
        http://a\u0017b/
        http://a\u0018b/
        http://a\u0019b/
        http://a\u001Ab/
        http://a\u001Bb/
        http://a\u001Cb/
        http://a\u001Db/
        http://a\u001Eb/
        http://a\u001Fb/
        http://a\u0020b/
        http://a<b
        http://a>b
        http://a[b/
        http://a]b/
        http://a^b
        http://a\u007Fb/
        http://ho%00st/
        http://ho%01st/
        http://ho%02st/
        http://ho%03st/
        http://ho%04st/
        http://ho%05st/
        http://ho%06st/
        http://ho%07st/
        http://ho%08st/
        http://ho%09st/
        http://ho%0Ast/
        http://ho%0Bst/
        http://ho%0Cst/
        http://ho%0Dst/
        http://ho%0Est/
        http://ho%0Fst/
        http://ho%10st/
        http://ho%11st/
        http://ho%12st/
        http://ho%13st/
        http://ho%14st/
        http://ho%15st/
        http://ho%16st/
        http://ho%17st/
        http://ho%18st/
        http://ho%19st/
        http://ho%1Ast/
        http://ho%1Bst/
        http://ho%1Cst/
        http://ho%1Dst/
        http://ho%1Est/
        http://ho%1Fst/
        http://ho%20st/
        http://ho%23st/
        http://ho%2Fst/
        http://ho%3Ast/
        http://ho%3Cst/
        http://ho%3Est/
        http://ho%3Fst/
        http://ho%40st/
        http://ho%5Bst/
        http://ho%5Cst/
        http://ho%5Dst/
        https://example.com%80/
        https://example.com%A0/
        http:
        http://[0:1:2:3:4:5:6:7:8]
        https://[0::0::0]
        https://[0:.0]
        https://[0:0:]
        https://[0:1:2:3:4:5:6:7.0.0.0.1]
        https://[0:1.00.0.0.0]
        https://[0:1.290.0.0.0]
        https://[0:1.23.23]
        http://?
        http://#
        http://f:4294967377/c
        http://f:18446744073709551697/c
        http://f:340282366920938463463374607431768211537/c
        http://[::127.0.0.0.1]
        https://\uFFFFy
        https://\u00AD/
        https://%C2%AD/
        """#
}
