import Foundation
import Testing

@testable import Convoy

@Suite struct ValidatorTests {
    // Sun, 06 Nov 1994 08:49:37 GMT
    private static let now = Date(timeIntervalSince1970: 784_111_777)
    private static let modified = "Sun, 06 Nov 1994 08:49:37 GMT"
    private static let aSecondLater = "Sun, 06 Nov 1994 08:49:38 GMT"

    private func head(_ fields: [(String, String)]) -> ResponseHead {
        ResponseHead(statusCode: 206, headerFields: HeaderFields(fields))
    }

    private func validator(_ fields: (String, String)..., now: Date = now) -> Validator? {
        Validator(of: head(fields), now: now)
    }

    /// Entity tags that RFC 9110, section 8.8.3, allows.
    @Test(arguments: [
        #""xyzzy""#, #""""#, #""a\b""#, ##""!#$%&'()*+,-./:;<=>?@[]^_`{|}~""##, #""W/""#, #""é""#,
        #""34aa387-d-1568eb00""#,
    ])
    func aStrongEntityTagIsUsed(tag: String) {
        #expect(validator(("ETag", tag)) == .entityTag(tag))
        #expect(validator(("etag", " \(tag)\t")) == .entityTag(tag))
        #expect(validator(("ETag", tag))?.fieldValue == tag)
    }

    @Test(arguments: [
        #"W/"xyzzy""#, #"w/"xyzzy""#, #"W/"""#, "", " ", "\"", "xyzzy", #""xyzzy"#, #"xyzzy""#, #""xy zzy""#,
        #""xy"zzy""#, #"'xyzzy'"#, "\"xy\u{0}zzy\"", "\"xy\u{7F}zzy\"", "\"xy\tzzy\"", "\"xy\r\nX: y\"", #""a", "a""#,
        #""a";q=1"#, #"""""#, "\u{201C}a\u{201D}", "\"\u{301}a\"b\u{301}",
    ])
    func aWeakOrInvalidEntityTagIsSkipped(tag: String) {
        #expect(validator(("ETag", tag)) == nil)
        let dated = validator(("ETag", tag), ("Last-Modified", Self.modified), ("Date", Self.aSecondLater))
        #expect(dated == .lastModified(Self.modified))
    }

    @Test(arguments: [(#""a""#, #""b""#), (#""a""#, #""a""#), (#""a""#, ""), (#""a""#, #"W/"a""#)])
    func repeatedEntityTagsAreIgnored(first: String, second: String) {
        #expect(validator(("ETag", first), ("etag", second)) == nil)
        #expect(validator(("ETag", second), ("ETag", first)) == nil)
    }

    @Test func entityTagGoesBeforeADate() {
        let both = validator(("Last-Modified", Self.modified), ("Date", Self.aSecondLater), ("ETag", #""a""#))
        #expect(both == .entityTag(#""a""#))
    }

    /// A modification date is strong if the response is at least one second younger (RFC 9110, section 8.8.2.2).
    @Test(arguments: [
        (modified, aSecondLater, true), (modified, modified, false), (aSecondLater, modified, false),
        (modified, "Sun, 06 Nov 1994 09:49:37 GMT", true), (modified, "Fri, 31 Dec 9999 23:59:59 GMT", true),
        (modified, "", false), (modified, "yesterday", false), (modified, "Sun, 06 Nov 1994 08:49:38 CET", false),
        ("Sunday, 06-Nov-94 08:49:37 GMT", aSecondLater, true), ("Sun Nov  6 08:49:37 1994", aSecondLater, true),
        ("Sun Nov  6 08:49:38 1994", aSecondLater, false), ("", aSecondLater, false), ("0", aSecondLater, false),
        ("Sun, 31 Nov 1994 08:49:37 GMT", aSecondLater, false),
        ("\(modified), \(modified)", aSecondLater, false), (modified, "\(aSecondLater), \(aSecondLater)", false),
    ])
    func dateIsStrongWhenTheAnswerIsASecondYounger(modified: String, sent: String, isStrong: Bool) {
        let expected = isStrong ? Validator.lastModified(modified) : nil
        #expect(validator(("Last-Modified", modified), ("Date", sent)) == expected)
        #expect(validator(("date", "\t\(sent) "), ("last-modified", " \(modified)")) == expected)
    }

    @Test func lastModifiedWithoutADateIsIgnored() {
        #expect(validator(("Last-Modified", "Thu, 01 Jan 1970 00:00:00 GMT")) == nil)
        #expect(validator() == nil)
        #expect(validator(("Date", Self.aSecondLater)) == nil)
    }

    @Test func repeatedDatesAreIgnored() {
        let (modified, sent) = (("Last-Modified", Self.modified), ("Date", Self.aSecondLater))
        #expect(validator(modified, modified, sent) == nil)
        #expect(validator(modified, sent, sent) == nil)
    }

    @Test(arguments: [Double.nan, .infinity, -.infinity, .greatestFiniteMagnitude, -1e300, 0])
    func noClockTrapsNorDecides(seconds: Double) {
        let now = Date(timeIntervalSince1970: seconds)
        let dated = validator(("Last-Modified", Self.modified), ("Date", Self.aSecondLater), now: now)
        #expect(dated == .lastModified(Self.modified))
        _ = validator(("Last-Modified", "Sunday, 06-Nov-94 08:49:37 GMT"), ("Date", Self.aSecondLater), now: now)
    }

    private static let tags: [([(String, String)], Bool)] = [
        // A response without an entity tag may be of any version.
        ([], false), ([("ETag", #""a""#)], true), ([("etag", #" "a" "#)], true), ([("ETag", #""b""#)], false),
        ([("ETag", #"W/"a""#)], false), ([("ETag", #""A""#)], false), ([("ETag", "a")], false), ([("ETag", "")], false),
        ([("ETag", #""a""#), ("ETag", #""b""#)], false), ([("ETag", #""a""#), ("ETag", #""a""#)], false),
        // A date is not compared with an entity tag.
        ([("Last-Modified", modified)], false), ([("Last-Modified", modified), ("ETag", #""a""#)], true),
    ]
    private static let dates: [([(String, String)], Bool)] = [
        ([], false), ([("Last-Modified", modified)], true), ([("last-modified", "\(modified)\t")], true),
        ([("Last-Modified", aSecondLater)], false), ([("Last-Modified", "")], false),
        // The same date in another format does not match, because validators are compared byte by byte.
        ([("Last-Modified", "Sunday, 06-Nov-94 08:49:37 GMT")], false), ([("ETag", #""a""#)], false),
        ([("Last-Modified", modified), ("Last-Modified", aSecondLater)], false), ([("Date", aSecondLater)], false),
    ]

    @Test func onlyTheSameValidatorMatches() {
        for (validator, rows) in [
            (Validator.entityTag(#""a""#), Self.tags), (.lastModified(Self.modified), Self.dates),
        ] {
            for (fields, matches) in rows { #expect(validator.matches(head(fields)) == matches, "\(fields)") }
        }
    }

    @Test func entityTagsAreComparedByTheByte() {
        let (composed, decomposed) = ("\"\u{E9}\"", "\"e\u{301}\"")
        #expect(composed == decomposed)
        #expect(!Validator.entityTag(composed).matches(head([("ETag", decomposed)])))
        #expect(Validator.entityTag(composed).matches(head([("ETag", composed)])))
    }
}
