import Testing

@testable import Convoy

@Suite struct HeaderFieldsTests {
    @Test(arguments: ["content-type", "Content-Type", "CONTENT-TYPE", "cOnTeNt-TyPe"])
    func namesCompareWithoutCase(name: String) {
        let fields: HeaderFields = ["Content-Type": "text/plain"]
        #expect(fields[name] == "text/plain")
        #expect(fields.values(of: name) == ["text/plain"])
        #expect(fields.contains(name))
    }

    /// `@` and `` ` ``, `[` and `{` are not letters, although they differ in the bit that distinguishes cases.
    @Test(arguments: [("X-A", "X-B"), ("X-A", "X-AA"), ("X^", "X~"), ("X@", "X`"), ("X[", "X{"), ("É", "é")])
    func otherNamesAreOtherFields(name: String, other: String) {
        let fields = HeaderFields([(name, "1")])
        #expect(fields[other] == nil)
        #expect(!fields.contains(other))
    }

    @Test func fieldsAreEqualByTheirBytes() {
        let (one, two): (HeaderFields, HeaderFields) = (["A": "caf\u{e9}"], ["A": "cafe\u{301}"])
        #expect(one != two && one == ["A": "caf\u{e9}"])
        #expect(one.hashValue == (["A": "caf\u{e9}"] as HeaderFields).hashValue)
        #expect(Set([one, two]).count == 2)
        #expect((["E\u{301}": "1"] as HeaderFields) != ["\u{c9}": "1"])
    }

    @Test func orderAndSpellingAreKept() {
        var fields: HeaderFields = ["b": "1", "A": "2", "B": "3"]
        fields.add("a", "4")
        #expect(fields.map(\.name) == ["b", "A", "B", "a"])
        #expect(fields.map(\.value) == ["1", "2", "3", "4"])
        #expect(fields.count == 4)
        #expect(fields[1] == HeaderFields.Field(name: "A", value: "2"))
    }

    @Test func severalValuesOfANameAreJoinedInOrder() {
        let fields = HeaderFields([("Accept", "a"), ("X", "y"), ("accept", "b, c")])
        #expect(fields["ACCEPT"] == "a, b, c")
        #expect(fields.values(of: "Accept") == ["a", "b, c"])
        #expect(fields.values(of: "none").isEmpty)
        #expect(fields["none"] == nil)
    }

    @Test func settingReplacesAllValuesWhereTheFirstStood() {
        var fields = HeaderFields([("X", "0"), ("A", "1"), ("Y", "2"), ("a", "3"), ("Z", "4")])
        fields["a"] = "new"
        #expect(fields.map(\.value) == ["0", "new", "2", "4"])
        fields["A"] = nil
        #expect(fields.map(\.name) == ["X", "Y", "Z"])
        fields["New"] = "last"
        #expect(fields.map(\.name) == ["X", "Y", "Z", "New"])
        fields["none"] = nil
        #expect(fields.count == 4)
    }

    @Test func modifiersOfARequestSetAndAdd() {
        let request = Request<String>.get("http://stub/").header("A", "1").addingHeader("a", "2").header("B", "3")
        #expect(request.headerFields.values(of: "A") == ["1", "2"])
        #expect(request.header("a", nil).headerFields.map(\.name) == ["B"])
        #expect(request.header("a", "4").headerFields.map(\.value) == ["4", "3"])
    }

    @Test(arguments: ["\r", "\n", "\r\n", "\0", "\r\nX-Injected: 1", "\n ", "é\n"])
    func lineEndsAndNULInAValueAreRefusedWithoutTheValue(bytes: String) throws {
        for value in ["hunter2\(bytes)", "\(bytes)hunter2", "hun\(bytes)hunter2"] {
            let request = Request<String>.get("http://stub/").header("Good", "1").addingHeader("X-Secret", value)
            let defect = try #require(request.defect)
            #expect(defect.contains("X-Secret"))
            #expect(defect.contains("CR, LF or NUL"))
            #expect(!defect.contains("hunter2"))
            #expect(defect.isOneLine)
        }
    }

    @Test(arguments: ["", " ", "X A", "X:", "X\r\nY", "X\0", "Ü", "X\tA", "(X)", "X/Y"])
    func invalidNamesAreReportedWithoutTheValue(name: String) throws {
        let defect = try #require(Request<String>.get("http://stub/").addingHeader(name, "hunter2").defect)
        #expect(defect.contains("is not a token"))
        #expect(!defect.contains("hunter2"))
        #expect(defect.isOneLine)
    }

    @Test(arguments: ["", "a", "a b\tc", "ü", "\u{1F4A9}", "\"quoted\"", "a;b=c, d"])
    func otherValuesAreFine(value: String) {
        #expect(Request<String>.get("http://stub/").header("X", value).defect == nil)
    }

    @Test func secretsAreNotInTheDescription() {
        let fields: HeaderFields = [
            "Authorization": "hunter2", "cookie": "hunter2", "PROXY-Authorization": "hunter2", "Set-Cookie": "hunter2",
            "X-Plain": "shown",
        ]
        #expect("\(fields)".contains("X-Plain: shown"))
        #expect("\(fields)".contains("cookie: <redacted>"))
        #expect(!"\(fields)".contains("hunter2"))
    }
}

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
