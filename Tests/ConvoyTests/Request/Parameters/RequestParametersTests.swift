import ConvoyTesting
import Foundation
import Testing

@testable import Convoy

@Suite struct RequestParametersTests {
    private struct Search: Encodable {
        var text = "ü & co"
        var tags = ["b", "a"]
        var limit: Int?
    }

    private let url = "http://stub/p"

    private func query(_ request: Request<Data>) throws -> String? {
        try #require(request.defect == nil)
        return try PreparedRequest(request.core, baseURL: nil).url.query(percentEncoded: true)?
            .replacing("%5B", with: "[").replacing("%5D", with: "]")
    }

    private func form(_ request: Request<Data>) throws -> String {
        try #require(request.defect == nil)
        let text = String(decoding: try #require(request.body), as: UTF8.self)
        return text.replacing("%5B", with: "[").replacing("%5D", with: "]")
    }

    // MARK: Literals, values, types

    @Test func everyKindOfParametersGoesIntoTheQuery() throws {
        let (name, page, tags) = ("Ann", 2, ["x", "y"])
        let values: ParameterValue = ["a": [true, nil, 1.5]]
        let age: Int? = nil
        #expect(try query(.get(url).query(["a": 1])) == "a=1")
        #expect(try query(.get(url).query(["a": 1, "b": [1, 2]])) == "a=1&b[]=1&b[]=2")
        #expect(
            try query(.get(url).query(["user": ["name": "Ann", "tags": ["a", "b"]], "page": 2]))
                == "page=2&user[name]=Ann&user[tags][]=a&user[tags][]=b")
        #expect(try query(.get(url).query(["a": nil, "b": true, "c": 1.5, "d": "\(name)"])) == "b=1&c=1.5&d=Ann")
        #expect(try query(.get(url).query(["age": age, "name": name])) == "name=Ann")
        #expect(
            try query(.get(url).query(["name": name, "page": page, "tags": tags]))
                == "name=Ann&page=2&tags[]=x&tags[]=y")
        #expect(try query(.get(url).query(values)) == "a[]=1&a[]=1.5")
        #expect(try query(.get(url).query(Search())) == "tags[]=b&tags[]=a&text=%C3%BC%20%26%20co")
        #expect(try query(.get(url).query([:])) == nil)
        #expect(try query(.get(url).query(nil as Search?)) == nil)
        #expect(try query(.get(url).query([])) == nil)
        #expect(try query(.get(url).query([URLQueryItem(name: "a", value: "?")])) == "a=%3F")
        #expect(try query(.get(url, query: ["a": ["b": 1], "c": 2])) == "a[b]=1&c=2")
        #expect(
            try query(.get(url, query: Search(), encoding: .init(nilEncoding: .null))).map {
                $0.hasPrefix("limit=null&")
            } == true)
    }

    @Test func everyKindOfParametersGoesIntoAForm() throws {
        let (name, page) = ("Ann", 2)
        #expect(try form(.post(url).form(["a": 1])) == "a=1")
        #expect(try form(.post(url).form(["a": 1, "b": ["c": [1, 2]]])) == "a=1&b[c][]=1&b[c][]=2")
        #expect(try form(.post(url).form(["name": name, "page": page])) == "name=Ann&page=2")
        #expect(
            try form(.post(url).form(Search(), encoding: .init(spaceEncoding: .plusReplaced)))
                == "tags[]=b&tags[]=a&text=%C3%BC+%26+co")
        #expect(try form(.post(url, form: ["a": 1, "b": "c"])) == "a=1&b=c")
        #expect(
            try form(.post(url, form: Search(), encoding: .init(arrayEncoding: .noBrackets)))
                == "tags=b&tags=a&text=%C3%BC%20%26%20co")
        #expect(try form(.post(url, form: ["name": name, "page": page])) == "name=Ann&page=2")
        #expect(try form(.post(url).form([:])) == "")
    }

    @Test func literalsGoIntoJSON() throws {
        let encoder = JSONEncoder()
        encoder.outputFormatting = .sortedKeys
        encoder.dateEncodingStrategy = .secondsSince1970
        encoder.keyEncodingStrategy = .convertToSnakeCase
        let date = Date(timeIntervalSince1970: 1)
        let request = Request<Data>.post(url).json(
            ["userName": ["Ann", NSNull(), 1, 2.5, true], "bornAt": date, "raw": Data([1])], encoder: encoder)
        #expect(request.body == Data(#"{"born_at":1,"raw":"AQ==","user_name":["Ann",null,1,2.5,true]}"#.utf8))
        #expect(request.headerFields["Content-Type"] == "application/json")
        #expect(Request<Data>.post(url, json: ["a": ["b": [1, "c"]]]).body == Data(#"{"a":{"b":[1,"c"]}}"#.utf8))
        let (name, tags) = ("Ann", ["b"])
        for request in [
            Request<Data>.post(url, json: ["name": name, "tags": tags]), .put(url, json: ["name": name, "tags": tags]),
            .patch(url, json: ["name": name, "tags": tags]), .post(url, json: ["name": "Ann", "tags": ["b"]]),
            .put(url, json: ["name": "Ann", "tags": ["b"]]), .patch(url, json: ["name": "Ann", "tags": ["b"]]),
        ] {
            let body = String(decoding: try #require(request.body), as: UTF8.self)
            #expect([#"{"name":"Ann","tags":["b"]}"#, #"{"tags":["b"],"name":"Ann"}"#].contains(body))
        }
    }

    @Test func literalsAreNested() throws {
        let tags = ["a", "b"]
        let request = Request<Data>.post(
            url,
            form: [
                "user": ["name": "Ann", "tags": tags], "age": nil, "page": 2, "ratio": 0.5, "all": true,
            ])
        #expect(try form(request) == "all=1&page=2&ratio=0.5&user[name]=Ann&user[tags][]=a&user[tags][]=b")
    }

    /// The example of the documentation, and the format of Pitaya: sorted keys, and a repeated key for an array.
    @Test func exampleOfTheEncoding() throws {
        let search: [String: Any] = ["user": ["name": "Ann", "tags": ["b", "a"]], "page": 2]
        #expect(
            try ParameterEncoding.default.encode(search)
                == "page=2&user%5Bname%5D=Ann&user%5Btags%5D%5B%5D=b&user%5Btags%5D%5B%5D=a")
        #expect(
            try ParameterEncoding(arrayEncoding: .noBrackets).encode(search)
                == "page=2&user%5Bname%5D=Ann&user%5Btags%5D=b&user%5Btags%5D=a")
        let escaped = try ParameterEncoding.default.encode(["a": ":&=;+!@#$()',*"])
        #expect(escaped == "a=%3A%26%3D%3B%2B%21%40%23%24%28%29%27%2C%2A")
    }

    // MARK: Query and body

    @Test(arguments: [
        ("http://stub/p?x=%20y+z", "x=%20y+z&q=1&a[]=2&r"), ("http://stub/p?", "q=1&a[]=2&r"),
        ("http://stub/p#f", "q=1&a[]=2&r"),
    ])
    func queryKeepsExistingItemsAndTheOrderOfCalls(url: String, expected: String) throws {
        let request = Request<Data>.get(url).query("q", "1").query(["a": [2]]).query("r", nil)
        #expect(try query(request) == expected)
    }

    @Test func charactersThatAreChosenGetThroughTheURL() throws {
        let encoding = ParameterEncoding(allowedCharacters: Set("/?:@!$'()*,;&=#%+[]<>\"{}|\\^` é\u{0}"))
        let request = Request<Data>.get(url).query(["a": "/?:@!$'()*,;&=#%+[]é\0"], encoding: encoding)
        let prepared = try PreparedRequest(request.core, baseURL: nil)
        #expect(
            prepared.url.absoluteString
                == "http://stub/p?a=/?:@!$'()*,;%26%3D%23%25%2B%5B%5D%C3%A9%00")
    }

    @Test func formSetsTheContentTypeUnlessTheCallerHas() {
        let type = "application/x-www-form-urlencoded; charset=utf-8"
        let form = Request<Data>.post(url).form(["a": 1])
        #expect(form.headerFields.values(of: "Content-Type") == [type])
        let own = Request<Data>.post(url).header("content-type", "application/x-own").form(["a": 1])
        #expect(own.headerFields.values(of: "Content-Type") == ["application/x-own"])
        #expect(form.header("Content-Type", "application/x-own").headerFields["Content-Type"] == "application/x-own")
        // Replacing a body also removes its content type.
        #expect(Request<Data>.post(url).json(["a": 1]).form(["a": 1]).headerFields["Content-Type"] == type)
        #expect(form.json(["a": 1]).headerFields["Content-Type"] == "application/json")
    }

    // MARK: Defects

    private struct Score: Encodable {
        var points: [Double]
    }

    private struct Refusal: Error {}

    private static let dates = ParameterEncoding(dateEncoding: .custom { _ in throw Refusal() })

    private static let defective: [(Request<Data>, String)] = [
        (.get("http://stub/").query(["a", "b"]), "the query parameters could not be encoded: it has no key"),
        (.get("http://stub/").query("a"), "the query parameters could not be encoded: it has no key"),
        (.get("http://stub/").query(7), "the query parameters could not be encoded: it has no key"),
        (.post("http://stub/").form([1, 2]), "the form could not be encoded: it has no key"),
        (
            .post("http://stub/").form(["a": ["b": [Date()]]], encoding: dates),
            "the form could not be encoded: a.b[0]: Refusal()"
        ),
        (
            .get("http://stub/").query(["a": [:] as [String: Int]], encoding: .init(emptyEncoding: .refuse)),
            "the query parameters could not be encoded: a: it is empty"
        ),
        (
            .post("http://stub/").json(["user": ["scores": [1, Double.nan]]], encoder: JSONEncoder()),
            "the JSON body could not be encoded: user.scores[1]: "
        ),
        (
            .post("http://stub/", json: ["a": Score(points: [.infinity]), "b": 1]),
            "the JSON body could not be encoded: a.points[0]: "
        ),
        // The request reports its first defect.
        (
            .post("http://stub/").form(1).json(Score(points: [.infinity])).form(["a": 1]),
            "the form could not be encoded"
        ),
    ]

    @Test(arguments: 0..<9)
    func aRequestThatCannotBeEncodedIsNeverSent(index: Int) async throws {
        try #require(Self.defective.count == 9)
        let (request, reason) = Self.defective[index]
        #expect(request.defect?.hasPrefix(reason) == true, "\(request.defect ?? "no defect")")
        let server = StubServer()
        let error = try await Sending(request, over: server.transport).error()
        #expect(error.code == .invalidRequest)
        #expect(error.message.contains(reason))
        #expect(error.description.isOneLine)
        #expect(server.exchanges.count == 0)
    }

    // MARK: On the wire

    private static let hostile: ParameterValue = [
        "user": ["näme": "Ann & Bob=+%", "tags": ["a b", "😃", ""], "[x]": "\0\r\n"], "page": 2, "all": true,
        "none": nil,
    ]
    private static let encoded =
        "all=1&page=2&user%5B%5Bx%5D%5D=%00%0D%0A&user%5Bn%C3%A4me%5D=Ann%20%26%20Bob%3D%2B%25"
        + "&user%5Btags%5D%5B%5D=a%20b&user%5Btags%5D%5B%5D=%F0%9F%98%83&user%5Btags%5D%5B%5D="

    @Test(arguments: ConformingTransport.all)
    func queryArrivesAsEncoded(_ subject: ConformingTransport) async throws {
        let server = try TestServer()
        defer { server.shutDown() }
        server.enqueue(.status(200))
        let request = Request<Data>.get(server.url("/find?own=1"), query: Self.hostile)
        _ = try await Sending(request, over: subject.transport).response()
        let received = try await server.takeRequest()
        #expect(received.path == "/find")
        #expect(received.query == "own=1&" + Self.encoded)
    }

    @Test(arguments: ConformingTransport.all)
    func formArrivesAsEncoded(_ subject: ConformingTransport) async throws {
        let server = try TestServer()
        defer { server.shutDown() }
        server.enqueue(.status(200))
        let request = Request<Data>.post(server.url("/"), form: Self.hostile)
        _ = try await Sending(request, over: subject.transport).response()
        let received = try await server.takeRequest()
        #expect(received.method == "POST")
        #expect(received.query == nil)
        #expect(received.bodyText == Self.encoded)
        #expect(received.values(of: "Content-Type") == ["application/x-www-form-urlencoded; charset=utf-8"])
        #expect(received.values(of: "Content-Length") == ["\(Self.encoded.utf8.count)"])
    }

    @Test(arguments: ConformingTransport.all)
    func jsonArrivesAsEncoded(_ subject: ConformingTransport) async throws {
        let server = try TestServer()
        defer { server.shutDown() }
        server.enqueue(.status(200))
        let encoder = JSONEncoder()
        encoder.outputFormatting = .sortedKeys
        let request = Request<Data>.put(server.url("/")).json(Self.hostile, encoder: encoder)
        _ = try await Sending(request, over: subject.transport).response()
        let received = try await server.takeRequest()
        let tree = #""user":{"[x]":"\u0000\r\n","näme":"Ann & Bob=+%","tags":["a b","😃",""]}"#
        #expect(received.bodyText == #"{"all":true,"none":null,"page":2,"# + tree + "}")
        #expect(received.value(of: "Content-Type") == "application/json")
    }
}

/// Tests calls whose parameters are variables of type `[String: Any]` and similar types.
@Suite struct UncheckedParameterTests {
    private struct Echo: Codable, Sendable {}
    private struct Point: Codable, Sendable { var x = 1 }
    /// A class that cannot be encoded.
    private final class View: Sendable {}

    private let url = "http://stub/p"
    private let name = "Ann"
    private let tags = ["x", "y"]
    private let page = 2
    private let age: Int? = nil

    private func form(_ request: Request<Echo>) throws -> String {
        try #require(request.defect == nil)
        return String(decoding: try #require(request.body), as: UTF8.self)
            .replacing("%5B", with: "[").replacing("%5D", with: "]")
    }

    private func json(_ request: Request<Echo>) throws -> NSDictionary {
        try #require(request.defect == nil)
        let body = try #require(request.body)
        return try #require(try JSONSerialization.jsonObject(with: body) as? NSDictionary)
    }

    @Test func nestedVariablesOfSeveralTypesGoIntoAForm() throws {
        let expected = "page=2&user[name]=Ann&user[tags][]=x&user[tags][]=y"
        let params: [String: Any] = ["user": ["name": name, "tags": tags], "page": page]
        #expect(try form(.post(url, form: ["user": ["name": name, "tags": tags], "page": page])) == expected)
        #expect(try form(.post(url, form: params)) == expected)
        #expect(try form(.post(url).form(["user": ["name": name, "tags": tags], "page": page])) == expected)
        #expect(try form(.post(url).form(params)) == expected)
        #expect(
            try form(.post(url, form: ["list": [1, name, ["deep": page + 1]], "flag": tags.isEmpty, "p": Point()]))
                == "flag=0&list[]=1&list[]=Ann&list[][deep]=3&p[x]=1")
    }

    @Test func nestedVariablesOfSeveralTypesGoIntoTheQuery() throws {
        let request = Request<Echo>.get(url, query: ["user": ["name": name, "n": tags.count], "page": page])
        #expect(
            try PreparedRequest(request.core, baseURL: nil).url.query(percentEncoded: true)
                == "page=2&user%5Bn%5D=2&user%5Bname%5D=Ann")
        let same = Request<Echo>.get(url).query(["user": ["name": name, "n": tags.count], "page": page])
        #expect(same.core.query == request.core.query)
    }

    @Test func nestedVariablesOfSeveralTypesGoIntoJSON() throws {
        let expected: NSDictionary = ["user": ["name": "Ann", "tags": ["x", "y"]] as NSDictionary, "page": 2]
        let params: [String: Any] = ["user": ["name": name, "tags": tags], "page": page]
        #expect(try json(.post(url, json: ["user": ["name": name, "tags": tags], "page": page])) == expected)
        #expect(try json(.put(url, json: ["user": ["name": name, "tags": tags], "page": page])) == expected)
        #expect(try json(.patch(url, json: ["user": ["name": name, "tags": tags], "page": page])) == expected)
        #expect(try json(.post(url).json(["user": ["name": name, "tags": tags], "page": page])) == expected)
        for request in [Request<Echo>.post(url, json: params), .put(url, json: params), .patch(url, json: params)] {
            #expect(try json(request) == expected)
        }
    }

    @Test func theEncodersOwnRulesHold() throws {
        let encoder = JSONEncoder()
        encoder.dateEncodingStrategy = .secondsSince1970
        let at = Date(timeIntervalSince1970: 7)
        #expect(try json(.post(url).json(["a": ["at": at, "n": page]], encoder: encoder)) == ["a": ["at": 7, "n": 2]])
        let encoding = ParameterEncoding(arrayEncoding: .noBrackets, boolEncoding: .literal)
        #expect(
            try form(.post(url, form: ["a": ["b": tags, "c": tags.isEmpty]], encoding: encoding))
                == "a[b]=x&a[b]=y&a[c]=false")
    }

    @Test func nilIsOmittedFromFormsAndNullInJSON() throws {
        let params: [String: Any] = [
            "a": age as Any, "b": NSNull(), "c": [age as Any, Any?.none as Any], "d": Any?.some(1) as Any,
        ]
        #expect(try form(.post(url, form: params)) == "d=1")
        let expected: NSDictionary = ["a": NSNull(), "b": NSNull(), "c": [NSNull(), NSNull()], "d": 1]
        #expect(try json(.post(url, json: params)) == expected)
    }

    @Test func numbersOfFoundationKeepTheirKind() throws {
        let params: [String: Any] = [
            "a": NSNumber(value: true), "b": NSNumber(value: 1), "c": NSNumber(value: 1.5),
            "d": NSNumber(value: UInt64.max), "e": NSNumber(value: Int64.min),
        ]
        #expect(
            try form(.post(url, form: params, encoding: .init(boolEncoding: .literal)))
                == "a=true&b=1&c=1.5&d=18446744073709551615&e=-9223372036854775808")
    }

    @Test func otherKindsOfTextAreText() throws {
        let texts: [String: Any] = [
            "a": NSString(string: "Ann"), "b": name.dropFirst(), "c": Character("c"), "d": NSMutableString(string: "1"),
            "e": Unicode.Scalar("e"), "f": [name.prefix(1), NSString(string: "true")] as [Any],
            "g": name.first as Any, "h": ["i": NSString(string: "é 日")],
        ]
        let form = "a=Ann&b=nn&c=c&d=1&e=e&f[]=A&f[]=true&g=A&h[i]=%C3%A9%20%E6%97%A5"
        #expect(try self.form(.post(url, form: texts)) == form)
        let query = Request<Echo>.get(url, query: texts).core.query.first ?? ""
        #expect(query.replacing("%5B", with: "[").replacing("%5D", with: "]") == form)
        let json: NSDictionary = [
            "a": "Ann", "b": "nn", "c": "c", "d": "1", "e": "e", "f": ["A", "true"], "g": "A", "h": ["i": "é 日"],
        ]
        #expect(try self.json(.post(url, json: texts)) == json)
        #expect(try self.form(.post(url, form: ["q": name.dropFirst(), "c": name.first])) == "c=A&q=nn")
    }

    @Test func valuesOfJSONSerializationCanBeSent() throws {
        let text = #"{"a":[1,true,null,1.5,{"b":"c"}],"d":{"e":-1}}"#
        let read = try #require(try JSONSerialization.jsonObject(with: Data(text.utf8)) as? [String: Any])
        let encoder = JSONEncoder()
        encoder.outputFormatting = .sortedKeys
        let body = try #require(Request<Echo>.post(url).json(read, encoder: encoder).body)
        #expect(String(decoding: body, as: UTF8.self) == text)
    }

    @Test func aValueThatCannotBeEncodedMakesTheRequestInvalidAndIsNamed() {
        let params: [String: Any] = ["user": ["name": name, "views": [1, View()]]]
        let reason = "could not be encoded: user.views[1]: a value of the type View cannot be encoded"
        #expect(Request<Echo>.get(url, query: params).defect?.contains("the query parameters \(reason)") == true)
        #expect(Request<Echo>.post(url, form: params).defect?.contains("the form \(reason)") == true)
        #expect(Request<Echo>.post(url, json: params).defect?.contains("the JSON body \(reason)") == true)
    }

    @Test func aTreeThatIsTooDeepIsAnErrorAndNoCrash() {
        var params: [String: Any] = ["view": View()]
        for _ in 0..<10_000 { params = ["a": params] }
        #expect(Request<Echo>.post(url, form: params).defect?.contains("nested too deep") == true)
        #expect(Request<Echo>.post(url, json: params).defect?.contains("nested too deep") == true)
        // The nesting is deeper than the stack, so it is released level by level.
        while let inner = params["a"] as? [String: Any] { params = inner }
    }

    /// The compiler prefers the overloads that it can check.
    @Test func literalsAndValuesKeepTheirMeaning() throws {
        let tree: ParameterValue = ["a": ["b": 1, "c": nil]]
        #expect(try form(.post(url, form: tree)) == "a[b]=1")
        #expect(try form(.post(url, form: ["a": nil, "b": ["c": 1, "d": "e"]])) == "b[c]=1&b[d]=e")
        #expect(try form(.post(url, form: ["name": name])) == "name=Ann")
        #expect(try form(.post(url, form: ["name": name, "page": page, "age": age])) == "name=Ann&page=2")
        #expect(try form(.post(url, form: Point())) == "x=1")
        #expect(try form(.post(url, form: [:])) == "")
    }
}

/// A tree of parameters that encodes itself, with literals.
enum ParameterValue: Sendable, Hashable {
    /// No value: see ``ParameterEncoding/nilEncoding``.
    case null
    /// True or false.
    case bool(Bool)
    /// A whole number.
    case integer(Int)
    /// A number with a fraction; in JSON, infinity and NaN are errors.
    case double(Double)
    /// Text.
    case string(String)
    /// A date, encoded by the rule of the encoding or of the `JSONEncoder`.
    case date(Date)
    /// Bytes, encoded by the rule of the encoding or of the `JSONEncoder`.
    case data(Data)
    /// Values in order.
    case array([ParameterValue])
    /// Values by key; encoded in the order of the keys.
    case dictionary([String: ParameterValue])
}

extension ParameterValue: Encodable {
    /// Encodes the tree; an error names the key path.
    ///
    /// - Throws: the encoder's error, and an `EncodingError` for more than 128 levels.
    func encode(to encoder: any Encoder) throws {
        // Each case is encoded by a separate function, because this function is on the stack once for each level.
        switch self {
        case .null: try Self.encode(nil as Bool?, in: encoder.singleValueContainer())
        case .bool(let value): try Self.encode(value, in: encoder.singleValueContainer())
        case .integer(let value): try Self.encode(value, in: encoder.singleValueContainer())
        case .double(let value): try Self.encode(value, in: encoder.singleValueContainer())
        case .string(let value): try Self.encode(value, in: encoder.singleValueContainer())
        case .date(let value): try Self.encode(value, in: encoder.singleValueContainer())
        case .data(let value): try Self.encode(value, in: encoder.singleValueContainer())
        case .array(let values): try Self.encode(values, to: encoder)
        case .dictionary(let values): try Self.encode(values, to: encoder)
        }
    }

    private static func encode(_ value: (some Encodable)?, in container: any SingleValueEncodingContainer) throws {
        var container = container
        if let value { try container.encode(value) } else { try container.encodeNil() }
    }

    private static func encode(_ values: [ParameterValue], to encoder: any Encoder) throws {
        try checkDepth(of: encoder)
        var container = encoder.unkeyedContainer()
        for value in values { try container.encode(value) }
    }

    private static func encode(_ values: [String: ParameterValue], to encoder: any Encoder) throws {
        try checkDepth(of: encoder)
        var container = encoder.container(keyedBy: ParameterKey.self)
        for (key, value) in values.sorted(by: { $0.key < $1.key }) {
            try container.encode(value, forKey: ParameterKey(key))
        }
    }

    /// Checks the depth for other encoders, which limit it only by their stack.
    static func checkDepth(of encoder: any Encoder) throws {
        guard encoder.codingPath.count < 128 else { throw EncodingError.tooDeep(at: encoder.codingPath) }
    }
}

extension ParameterValue: ExpressibleByDictionaryLiteral, ExpressibleByArrayLiteral, ExpressibleByNilLiteral,
    ExpressibleByBooleanLiteral, ExpressibleByIntegerLiteral, ExpressibleByFloatLiteral,
    ExpressibleByStringInterpolation
{
    /// Values by key; a repeated key traps.
    init(dictionaryLiteral elements: (String, ParameterValue)...) {
        self = .dictionary(
            Dictionary(elements) { _, _ in preconditionFailure("a literal of parameters has a key twice: remove one") })
    }

    /// Values in order.
    init(arrayLiteral elements: ParameterValue...) { self = .array(elements) }
    /// No value.
    init(nilLiteral: ()) { self = .null }
    /// True or false.
    init(booleanLiteral value: Bool) { self = .bool(value) }
    /// A whole number.
    init(integerLiteral value: Int) { self = .integer(value) }
    /// A number with a fraction.
    init(floatLiteral value: Double) { self = .double(value) }
    /// Text.
    init(stringLiteral value: String) { self = .string(value) }
}
