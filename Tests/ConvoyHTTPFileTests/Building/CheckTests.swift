import Testing

@testable import ConvoyHTTPFile

/// Tests the conditions on responses.
@Suite struct CheckTests {
    private let answer = CheckedAnswer(
        statusCode: 201, fields: ["Content-Type": "application/json; charset=utf-8", "Set-Cookie": "a=1"],
        body: Array(
            #"{"id": 3, "name": "Ada", "list": [1, 2], "none": null, "access_token": "s3cret", "tokens": ["a"]}"#.utf8),
        milliseconds: 120.4)

    private func defect(_ source: String) throws -> String? {
        try Check(source).defect(in: answer)
    }

    @Test(arguments: [
        "status 2xx", "status == 201", "status 201", "status < 300", "status != 200",
        "header content-type contains json", "header Content-Type exists", "header X !exists", "body.$.id exists",
        "body.$.id == 3", "body.$.id == 3.0", "body.$.id >= 3", "body.$.name == Ada", "body.$.name == 'Ada'",
        "body.$.list[-1] == 2", "body.$.none == null", "body.name contains da", "body.$['name'] == \"Ada\"",
        "body contains \"name\"", "time < 500ms", "time <= 2s", "duration < 200", "body.$.x not exists",
        "status startsWith 20", "body.name endsWith da", "status endsWith 01",
    ]) func aCorrectResponsePasses(source: String) throws { #expect(try defect(source) == nil) }

    @Test(arguments: [
        ("status 5xx", "201"), ("status == 200", "201"), ("header X exists", "no such field"),
        ("header content-type contains xml", "‘application/json; charset=utf-8’"), ("body.$.id == 4", "‘3’"),
        ("body.$.x exists", "no value"), ("header set-cookie == b", "another value, which may be secret"),
        ("body.$.access_token == b", "another value, which may be secret"),
        ("body.$.tokens[0] == b", "another value, which may be secret"), ("body.$.api_key exists", "no value"),
        ("body.$.* == b", "‘3’"), ("body.$..x == b", "no value"),
        ("body.$['access_token','id'] == b", "another value, which may be secret"), ("time < 100ms", "120 ms"),
    ]) func aFailureNamesTheExpectedAndTheFoundValue(source: String, found: String) throws {
        #expect(try defect(source) == "expected \(source), but found \(found)")
    }

    @Test(arguments: [
        (#"{"access_token": "s3cret"}"#, "body.$.* == b", #"‘"<redacted>"’"#),
        (#"{"access_token": {"a": ["s3cret", 17]}}"#, "body.$.* == b", #"‘{"a":["<redacted>","<redacted>"]}’"#),
        (#"[{"id": 1, "password": "s3cret"}]"#, "body.$[0] == b", #"‘{"id":1,"password":"<redacted>"}’"#),
        (#"{"id": 1, "password": "s3cret"}"#, "body == b", #"‘{"id":1,"password":"<redacted>"}’"#),
        (#"{"id": 1}"#, "body == b", #"‘{"id": 1}’"#), ("a=1&token=s3cret", "body == b", "‘a=1&token=%3Credacted%3E’"),
        ("hello", "body == b", "‘hello’"),
    ]) func membersWithSecretNamesAreNotQuoted(body: String, source: String, found: String) throws {
        let answer = CheckedAnswer(statusCode: 200, fields: [:], body: Array(body.utf8))
        let defect = try Check(source).defect(in: answer)
        #expect(defect == "expected \(source), but found \(found)")
    }

    /// A typing error must not pass, and integers of any length are compared exactly.
    @Test(arguments: [
        ("null", "> 5", false), ("\"e\"", ">= 1", false), ("true", "> 5", false), ("{}", ">= 1", false),
        ("[]", "> 5", false), ("7", "< 1O", false), ("7", "<= x1", false), ("7", "> -", false),
        ("18446744073709551614", "== 18446744073709551615", false),
        ("18446744073709551614", "< 18446744073709551615", true),
        ("-18446744073709551614", "> -18446744073709551615", true), ("-1", "< 18446744073709551615", true),
        ("9", "< 10000000000000000000", true), ("10000000000000000000.0", "== 10000000000000000000", true),
        ("123456789012345678", "!= 123456789012345679", true),
    ]) func numbersAreComparedExactlyAndWithNumbersOnly(value: String, condition: String, passes: Bool) throws {
        let answer = CheckedAnswer(statusCode: 200, fields: [:], body: Array("{\"a\":\(value)}".utf8))
        #expect((try Check("body.$.a " + condition).defect(in: answer) == nil) == passes)
    }

    @Test func timeIsCheckedWhenItIsKnown() throws {
        var early = answer
        early.milliseconds = nil
        #expect(try Check("time < 1ms").defect(in: early) == nil)
    }
}
