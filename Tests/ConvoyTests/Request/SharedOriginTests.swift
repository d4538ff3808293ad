import Foundation
import Testing

@testable import Convoy

@Suite struct SharedOriginTests {
    /// Each URL follows one whose origin has the same length or the same beginning.
    @Test func theLastStringIsUsedOnlyForTheSameOrigin() throws {
        let origins = [
            ("http://stub.test:99/a", "http://stub.test:99"), ("http://stub.test/b", "http://stub.test:80"),
            ("http://stub.test:80/c", "http://stub.test:80"), ("http://stub.tests/d", "http://stub.tests:80"),
            ("https://stub.test/e", "https://stub.test:443"), ("http://stub.test/f", "http://stub.test:80"),
            ("http://stub.test:8/g", "http://stub.test:8"), ("http://stub.test:80/h", "http://stub.test:80"),
            ("http://a/i", "http://a:80"), ("https://stub.test:443", "https://stub.test:443"),
        ]
        for (text, origin) in origins {
            let url = try #require(URL(string: text))
            #expect(url.sharedOrigin == origin)
            #expect(url.usualOrigin == origin)
        }
        #expect(URL(string: "HTTP://stub.test/")?.sharedOrigin == nil)
    }

    @Test func consecutiveURLsOfOneOriginShareAString() throws {
        let texts = ["http://a-long-name.example/1", "http://a-long-name.example/2?b", "http://another-name.example/"]
        let urls = try texts.map { try #require(URL(string: $0)) }
        // All strings live until the comparison, so that no address is used twice.
        var origins = urls.map { $0.sharedOrigin ?? "" }
        let addresses = origins.indices.map { index in
            origins[index].withUTF8 { UnsafeRawPointer($0.baseAddress) }
        }
        #expect(addresses[0] == addresses[1])
        #expect(addresses[0] != addresses[2])
    }
}
