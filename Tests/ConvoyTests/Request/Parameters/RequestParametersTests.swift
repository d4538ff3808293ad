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

    private struct Point: Encodable, Sendable { var x = 1 }
    private final class View: Sendable {}

    private let url = "http://stub/p"
    private let name = "Ann"
    private let tags = ["x", "y"]
    private let page = 2
    private let age: Int? = nil

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

    private func json(_ request: Request<Data>) throws -> NSDictionary {
        try #require(request.defect == nil)
        let body = try #require(request.body)
        return try #require(try JSONSerialization.jsonObject(with: body) as? NSDictionary)
    }

    @Test func everyKindOfParametersGoesIntoTheQuery() throws {
        let values = ["a": [true, nil, false]]
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
        #expect(try query(.get(url).query(values)) == "a[]=1&a[]=0")
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
        #expect(try form(.post(url).form(["a": 1, "b": ["c": [1, 2]]])) == "a=1&b[c][]=1&b[c][]=2")
        #expect(
            try form(.post(url).form(Search(), encoding: .init(spaceEncoding: .plusReplaced)))
                == "tags[]=b&tags[]=a&text=%C3%BC+%26+co")
        #expect(
            try form(.post(url, form: Search(), encoding: .init(arrayEncoding: .noBrackets)))
                == "tags=b&tags=a&text=%C3%BC%20%26%20co")
        // The compiler prefers the overloads that it can check.
        let tree: [String: [String: Int?]] = ["a": ["b": 1, "c": nil]]
        #expect(try form(.post(url, form: tree)) == "a[b]=1")
        #expect(try form(.post(url, form: ["a": nil, "b": ["c": 1, "d": "e"]])) == "b[c]=1&b[d]=e")
        #expect(try form(.post(url, form: ["name": name])) == "name=Ann")
        #expect(try form(.post(url, form: ["name": name, "page": page, "age": age])) == "name=Ann&page=2")
        #expect(try form(.post(url, form: [:])) == "")
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
        for request in [
            Request<Data>.post(url, json: ["tags": ["b"]]), .put(url, json: ["tags": ["b"]]),
            .patch(url, json: ["tags": ["b"]]),
        ] {
            #expect(request.body == Data(#"{"tags":["b"]}"#.utf8))
        }
    }

    @Test func exampleOfTheEncoding() throws {
        let search: [String: Any] = ["user": ["name": "Ann", "tags": ["b", "a"]], "page": 2]
        #expect(
            try ParameterEncoding(arrayEncoding: .noBrackets).encode(search)
                == "page=2&user%5Bname%5D=Ann&user%5Btags%5D=b&user%5Btags%5D=a")
    }

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

    @Test(arguments: ConformingTransport.all)
    func parametersArriveAsEncoded(_ subject: ConformingTransport) async throws {
        let user: [String: Any] = ["näme": "Ann & Bob=+%", "tags": ["a b", "😃", ""], "[x]": "\0\r\n"]
        let hostile: [String: Any?] = ["user": user, "page": 2, "all": true, "none": nil]
        let encoded =
            "all=1&page=2&user%5B%5Bx%5D%5D=%00%0D%0A&user%5Bn%C3%A4me%5D=Ann%20%26%20Bob%3D%2B%25"
            + "&user%5Btags%5D%5B%5D=a%20b&user%5Btags%5D%5B%5D=%F0%9F%98%83&user%5Btags%5D%5B%5D="
        let json =
            #"{"all":true,"none":null,"page":2,"user":{"[x]":"\u0000\r\n","näme":"Ann & Bob=+%","#
            + #""tags":["a b","😃",""]}}"#
        let server = try TestServer()
        defer { server.shutDown() }
        let encoder = JSONEncoder()
        encoder.outputFormatting = .sortedKeys
        for request in [
            Request<Data>.get(server.url("/find?own=1"), query: hostile), .post(server.url(), form: hostile),
            .put(server.url()).json(hostile, encoder: encoder),
        ] {
            server.enqueue(.status(200))
            _ = try await Sending(request, over: subject.transport).response()
            let received = try await server.takeRequest()
            #expect(received.path == (received.method == "GET" ? "/find" : "/"))
            #expect(received.query == (received.method == "GET" ? "own=1&" + encoded : nil))
            #expect(received.bodyText == ["POST": encoded, "PUT": json][received.method] ?? "")
            let types = [
                "POST": ["application/x-www-form-urlencoded; charset=utf-8"], "PUT": ["application/json"], "GET": [],
            ]
            #expect(received.values(of: "Content-Type") == types[received.method])
        }
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

    @Test func nestedVariablesOfSeveralTypesGoIntoJSON() throws {
        let expected: NSDictionary = ["user": ["name": "Ann", "tags": ["x", "y"]] as NSDictionary, "page": 2]
        let params: [String: Any] = ["user": ["name": name, "tags": tags], "page": page]
        #expect(try json(.post(url, json: ["user": ["name": name, "tags": tags], "page": page])) == expected)
        #expect(try json(.put(url, json: ["user": ["name": name, "tags": tags], "page": page])) == expected)
        #expect(try json(.patch(url, json: ["user": ["name": name, "tags": tags], "page": page])) == expected)
        #expect(try json(.post(url).json(["user": ["name": name, "tags": tags], "page": page])) == expected)
        for request in [Request<Data>.post(url, json: params), .put(url, json: params), .patch(url, json: params)] {
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
        let query = Request<Data>.get(url, query: texts).core.query.first ?? ""
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
        let body = try #require(Request<Data>.post(url).json(read, encoder: encoder).body)
        #expect(String(decoding: body, as: UTF8.self) == text)
    }

    @Test func aValueThatCannotBeEncodedMakesTheRequestInvalidAndIsNamed() {
        let params: [String: Any] = ["user": ["name": name, "views": [1, View()]]]
        let reason = "could not be encoded: user.views[1]: a value of the type View cannot be encoded"
        #expect(Request<Data>.get(url, query: params).defect?.contains("the query parameters \(reason)") == true)
        #expect(Request<Data>.post(url, form: params).defect?.contains("the form \(reason)") == true)
        #expect(Request<Data>.post(url, json: params).defect?.contains("the JSON body \(reason)") == true)
    }

    @Test func aTreeThatIsTooDeepIsAnErrorAndNoCrash() {
        var params: [String: Any] = ["view": View()]
        for _ in 0..<10_000 { params = ["a": params] }
        #expect(Request<Data>.post(url, form: params).defect?.contains("nested too deep") == true)
        #expect(Request<Data>.post(url, json: params).defect?.contains("nested too deep") == true)
        // The nesting is deeper than the stack, so it is released level by level.
        while let inner = params["a"] as? [String: Any] { params = inner }
    }
}
