import Foundation
import Testing

@testable import ConvoyHTTPFile

/// Tests variables whose names begin with a dollar sign.
@Suite struct SystemVariableTests {
    /// 2023-11-14 22:13:20.25 UTC, a Tuesday.
    private let date = Date(timeIntervalSince1970: 1_700_000_000.25)

    private func value(_ source: String) throws -> String {
        try SystemVariable(source).value(at: date) ?? ""
    }

    @Test(arguments: [
        ("$timestamp", "1700000000"), ("$timestamp -1 d", "1699913600"), ("$timestamp 2 h", "1700007200"),
        ("$timestamp 1 M", "1702592000"), ("$timestamp -3 y", "1605392000"), ("$timestamp 1500 ms", "1700000001"),
        ("$timestamp 1 Q", "1707948800"), ("$timestamp 1 w", "1700604800"), ("$timestamp 10 m", "1700000600"),
        ("$datetime iso8601", "2023-11-14T22:13:20.250Z"), ("$isoTimestamp", "2023-11-14T22:13:20.250Z"),
        ("$datetime rfc1123", "Tue, 14 Nov 2023 22:13:20 GMT"), ("$datetime iso8601 1 y", "2024-11-14T22:13:20.250Z"),
        ("$datetime 'YYYY-MM-DD'", "2023-11-14"), ("$datetime \"DD-MM-YYYY\" 1 y", "14-11-2024"),
        ("$datetime 'ddd D MMMM YY, h:mm A [at] HH'", "Tue 14 November 23, 10:13 PM at 22"),
        ("$datetime \"YYYY-MM-DDTHH:mm:ss.SSSZ\" -1 d", "2023-11-13T22:13:20.250+00:00"),
    ]) func timesAreThoseOfTheDocuments(source: String, value: String) throws {
        #expect(try self.value(source) == value)
    }

    @Test(arguments: [
        ("$guid", "^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$"),
        ("$uuid", "^[0-9a-f-]{36}$"),
        ("$random.uuid", "^[0-9a-f-]{36}$"), ("$random.alphabetic(12)", "^[A-Za-z]{12}$"),
        ("$random.hexadecimal(7)", "^[0-9a-f]{7}$"), ("$random.alphanumeric(3)", "^[A-Za-z0-9]{3}$"),
        ("$randomInt 5 8", "^[5-7]$"), ("$random.integer(-3, 0)", "^-[1-3]$"), ("$randomInt", "^[0-9]{1,3}$"),
        ("$random.float(1, 2)", "^1\\.[0-9]+$"), ("$random.email", "^[a-z.0-9]+@example\\.com$"),
        ("$random.internet.emailAddress()", "@example\\.com$"), ("$random.name.firstName", "^[A-Z][a-z]+$"),
        ("$random.address.zipCode", "^[0-9]{5}$"), ("$random.boolean", "^(true|false)$"),
        ("$random.lorem.sentence", "^[A-Z][a-z ]+\\.$"), ("$random.number.randomDigit", "^[0-9]$"),
    ]) func randomValuesHaveTheirFormat(variable: String, pattern: String) throws {
        let regex = try Regex(pattern)
        let values = try (0..<100).map { _ in try value(variable) }
        #expect(values.allSatisfy { $0.firstMatch(of: regex) != nil }, "\(values)")
        #expect(Set(values).count > 1)
    }

    @Test func formatsOfOtherZonesHaveTheirOffset() throws {
        let zone = try #require(TimeZone(secondsFromGMT: -5 * 3_600 - 1_800))
        #expect(DateStyle.iso8601.text(of: date, in: zone) == "2023-11-14T16:43:20-05:30")
        #expect(DateStyle.rfc1123.text(of: date, in: zone) == "Tue, 14 Nov 2023 16:43:20 -0530")
    }
}
