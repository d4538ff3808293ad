import Foundation
import Testing

@testable import Convoy

/// Compares the scheme, host and port that are parsed from a URL's bytes with those of Foundation.
@Suite struct OriginTests {
    @Test(arguments: [
        "http://example.com", "http://example.com/", "http://example.com/a:1?b@c#d", "http://example.com?q",
        "http://e#f", "http://example.com:80/", "http://example.com:8080", "http://example.com:443/a",
        "https://example.com:443",
        "https://example.com:65535/", "https://127.0.0.1:18481/1k", "http://a-b.c-d.example./", "http://example.com:0/",
        "http://example.com:080/", "http://example.com:65536/", "http://example.com:99999/",
        "http://example.com:123456/", "http://example.com:/", "http://[::1]:8080/a", "http://user:secret@example.com/",
        "http://user@example.com:81/",
        "http://exa%20mple.com/", "http://exa%2Fmple.com/", "http://", "http:///a", "http:a",
        "http://ex_ample.com/",
    ])
    func bytesAndFoundationAgree(text: String) throws {
        let url = try #require(URL(string: text))
        // For a scheme in upper case, the library calls Foundation.
        let other = try #require(URL(string: "HT" + text.dropFirst(2)))
        switch (url.origin, other.origin) {
        case (.success(let mine), .success(let its)): #expect(mine == its)
        case (.failure, .failure): break
        default: Issue.record("\(url.origin) is not \(other.origin)")
        }
    }
}
