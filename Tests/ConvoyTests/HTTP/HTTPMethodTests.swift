import Testing

@testable import Convoy

@Suite struct HTTPMethodTests {
    @Test(arguments: ["GET", "PURGE", "M-SEARCH", "get", "!#$%&'*+-.^_`|~09azAZ"])
    func anyTokenIsAMethod(name: String) {
        #expect(HTTPMethod(name).isToken)
        #expect(Request<String>(method: HTTPMethod(name), url: "http://stub/").defect == nil)
    }

    @Test(arguments: ["", " ", "GET ", "GE T", "GET\r\nX-A: 1", "GET\0", "GÉT", "GET/", "(GET)", "\u{7F}", "a:b"])
    func aMethodThatIsNotATokenMakesTheRequestInvalid(name: String) throws {
        #expect(!HTTPMethod(name).isToken)
        let defect = try #require(Request<String>(method: HTTPMethod(name), url: "http://stub/").defect)
        #expect(defect.contains("is not a token"))
        #expect(defect.isOneLine)
    }

    @Test func namesCompareByCase() {
        #expect(HTTPMethod("get") != .get)
        #expect(HTTPMethod("GET") == .get)
        #expect("PURGE" as HTTPMethod == HTTPMethod(rawValue: "PURGE"))
        #expect("\(HTTPMethod.patch)" == "PATCH")
    }

    /// The idempotent methods of RFC 9110, section 9.2.2.
    @Test(arguments: [
        (HTTPMethod.get, true), (.head, true), (.put, true), (.delete, true), (.options, true), ("TRACE", true),
        (.post, false), (.patch, false), ("get", false), ("CONNECT", false),
    ])
    func idempotenceIsThatOfTheRFC(method: HTTPMethod, isIdempotent: Bool) {
        #expect(method.isIdempotent == isIdempotent)
    }
}
