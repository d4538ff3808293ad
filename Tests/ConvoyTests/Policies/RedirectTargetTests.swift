import Foundation
import Testing

@testable import Convoy

@Suite struct RedirectTargetTests {
    private func target(_ locations: String..., from url: String = "http://a/b/c/d;p?q") throws -> String? {
        var head = ResponseHead(statusCode: 302)
        for location in locations { head.headerFields.add("location", location) }
        let request = try PreparedRequest.test(.get, url)
        return (try? RedirectTarget(head, of: request))?.url.absoluteString
    }

    @Test(arguments: 100...599)
    func onlyFiveStatusCodesLeadAnywhere(statusCode: Int) throws {
        let leads = RedirectPolicy.follow.leads(.redirect(statusCode, to: "/x"), of: try .test())
        #expect(leads == [301, 302, 303, 307, 308].contains(statusCode))
    }

    @Test func withoutAPolicyNothingLeadsAnywhere() throws {
        #expect(!RedirectPolicy.never.leads(.redirect(to: "/x"), of: try .test()))
        #expect(RedirectPolicy.never.first(.redirect(to: "/x"), of: try .test()).isDelivery)
        #expect(RedirectPolicy(maxCount: .min).first(.redirect(to: "/x"), of: try .test()).isDelivery)
    }

    @Test(
        arguments: [
            ("/x", "http://a/x"), ("?y", "http://a/b/c/d;p?y"), ("//h/x", "http://h/x"), ("../x", "http://a/b/x"),
            (" \t/x\t ", "http://a/x"), ("/ü", "http://a/%C3%BC"), ("/a b", "http://a/a%20b"),
            ("/a%20b%zz", "http://a/a%20b%25zz"), ("/<script>", "http://a/%3Cscript%3E"),
            ("a\tb", "http://a/b/c/a%09b"),
            ("http://bücher.example/", "http://xn--bcher-kva.example/"), ("HTTP://H/x", "HTTP://H/x"),
            ("http://h/a/../b", "http://h/b"), ("//h/../b", "http://h/b"), ("http://h:80/", "http://h:80/"),
            ("http://[::1]:8080/x", "http://[::1]:8080/x"), ("file:///etc/passwd", "file:///etc/passwd"),
            ("javascript:alert(1)", "javascript:alert(1)"), ("", nil), (" ", nil), ("http://", nil), ("http:///x", nil),
            ("http:x", nil), ("//", nil), ("///x", nil), ("http://h:99999/", nil), ("http://h:abc/", nil),
            ("http://h:99999999999999999999/", nil), ("http://[::1", nil), ("http://ex ample/", nil), ("1a:b", nil),
            ("http://a\\@evil/", nil), ("http://0x7f.1/", "http://127.0.0.1/"), ("http://256.256.256.256/", nil),
            ("/x, /y", nil), ("http://h/x, http://h/y", nil), ("x, HTTPS://h/", nil), ("/x, /x", "http://a/x"),
            ("http://ho%7Fst/", nil), ("http://h%20o/", nil), ("http://h%2Fo/", nil), ("http://h%00/", nil),
            ("http://h%25o/", nil), ("http://%61/x", "http://a/x"), ("http://h%C3%BC/", "http://xn--h-eha/"),
            ("http://h%FF/", nil), ("http://[fe80::1%25eth0]/", "http://[fe80::1%25eth0]/"),
        ] as [(String, String?)])
    func locationsAreResolvedOrUnusable(location: String, expected: String?) throws {
        #expect(try target(location) == expected)
        let head = ResponseHead.redirect(to: location)
        #expect(RedirectPolicy.follow.leads(head, of: try .test()) == (expected != nil))
        #expect(RedirectPolicy.follow.first(head, of: try .test()).isDelivery == (expected == nil))
    }

    @Test func thereMustBeOneLocation() throws {
        #expect(try target() == nil)
        #expect(try target("/x", "/y") == nil)
        #expect(try target("/x", "") == nil)
        #expect(try target("/x", "/x ") == "http://a/x")
        #expect(try target("/x", "/x, /x") == "http://a/x")
    }

    @Test func anOverlongLocationIsUnusable() throws {
        let path = "/" + String(repeating: "x", count: (16 << 10) - 1)
        #expect(try target(path) == "http://a" + path)
        #expect(try target(path + "x") == nil)
        #expect(try target("/" + String(repeating: "ü", count: 8 << 10)) == nil)
        #expect(try target(String(repeating: "/, ", count: 20_000)) == nil)
    }

    /// The fragment of the target, or else that of the request: RFC 9110, section 10.2.2.
    @Test(arguments: [
        ("http://a/b#f", "/x", "http://a/x#f"), ("http://a/b#f", "/x#g", "http://a/x#g"),
        ("http://a/b#f", "/x#", "http://a/x#"), ("http://a/b#f", "http://h/", "http://h/#f"),
        ("http://a/b", "/x", "http://a/x"),
    ])
    func theFragmentIsInherited(from: String, location: String, expected: String) throws {
        #expect(try target(location, from: from) == expected)
    }

    @Test(arguments: [
        ("http://u:p@a/b", "/x", "http://u:p@a/x"), ("http://u:p@a/b", "?y", "http://u:p@a/b?y"),
        ("http://u:p@a/b", "http://a/x", "http://a/x"), ("http://u:p@a/b", "//a/x", "http://a/x"),
        ("http://u:p@a/b", "http://h/x", "http://h/x"), ("http://a/b", "http://u:p@h/x", "http://h/x"),
        ("http://a/b", "//u:p@a:81/x", "http://a:81/x"), ("http://a/b", "https://u:p@a/x", "https://a/x"),
        ("http://a/b", "http://u:p@A:80/x", "http://u:p@A:80/x"),
        ("http://a/b", "http://a@b@evil/", "http://evil/"),
    ])
    func userInfoStaysWithinItsOrigin(from: String, location: String, expected: String) throws {
        #expect(try target(location, from: from) == expected)
    }

    @Test func garbageNeitherTrapsNorLeadsAwayFromTheWeb() throws {
        var generator = SeededGenerator(seed: 7)
        let pieces = [
            "http", "https", "file", ":", "/", "//", "@", "?", "#", "%", "%2", "%zz", "[", "]", "[::1]", ".", "..", "a",
            "ü", " ", "\t", "\u{0}", "\r\n", "\\", ",", ", ", ":80", ":-1", ":99999", "\u{202E}", "🚚", "\"", "<", "{",
            "e\u{301}", "/\u{301}", "@\u{301}", "#\u{301}",
        ]
        let request = try PreparedRequest.test(.post, "https://u:p@a/b#f", fields: ["Cookie": "a"], body: "x")
        let policy = RedirectPolicy(maxCount: 5, allowsInsecure: true)
        var followed = 0
        for _ in 0..<LongRuns.count(1_000, long: 5_000) {
            let location = (0..<Int.random(in: 0...9, using: &generator)).compactMap { _ in
                pieces.randomElement(using: &generator)
            }.joined()
            let head = ResponseHead.redirect([301, 307, 303].randomElement(using: &generator) ?? 0, to: location)
            let step = policy.first(head, of: request)
            #expect(step.isDelivery != policy.leads(head, of: request))
            guard let next = step.request else {
                if let error = step.error { #expect(error.code == .redirectRefused, "\(location.debugDescription)") }
                continue
            }
            followed += 1
            #expect(["http", "https"].contains(next.url.scheme?.lowercased()))
            let leaves = next.hostKey != request.hostKey
            #expect(step.leavesOrigin == leaves)
            #expect(next.headerFields.contains("Cookie") != leaves)
            if leaves { #expect(next.url.user() == nil && next.url.password() == nil, "\(next.url.absoluteString)") }
        }
        #expect(followed > LongRuns.count(50, long: 500))
    }
}
