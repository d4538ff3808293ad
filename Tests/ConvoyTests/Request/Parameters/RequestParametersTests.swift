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
