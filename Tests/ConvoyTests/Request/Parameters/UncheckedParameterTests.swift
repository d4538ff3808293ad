import Foundation
import Testing

@testable import Convoy

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
