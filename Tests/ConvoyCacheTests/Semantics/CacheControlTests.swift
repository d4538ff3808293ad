import Convoy
import Testing

@testable import ConvoyCache

struct CacheControlTests {
    private func targeted(_ value: String, _ other: String = "max-age=5") -> CacheControl {
        let fields: HeaderFields = ["X-Cache-Control": value, "Cache-Control": other]
        return Freshness.control(fields, .shared(targets: ["x-cache-control"]))
    }

    private func control(_ lines: String...) -> CacheControl {
        CacheControl(HeaderFields(lines.map { ("Cache-Control", $0) }))
    }

    @Test(arguments: [
        ("max-age=60", CacheControl.Seconds.value(60)), ("MaX-aGe=60", .value(60)), ("max-age=\"60\"", .value(60)),
        ("max-age=0060", .value(60)), ("max-age=99999999999999999999999", .value(1 << 31)), ("max-age", .invalid),
        ("max-age=", .invalid), ("max-age=-1", .invalid), ("max-age=60.0", .invalid), ("max-age=a60", .invalid),
        ("max-age='60'", .invalid), ("max-age =60", .invalid), ("max-age= 60", .invalid),
        ("max-age=60, max-age=60", .value(60)), ("max-age=60, max-age=1", .invalid), ("foo=\"max-age=60\"", .absent),
        ("foo=\"a, max-age=60\"", .absent), ("foo=\"a\\\", max-age=60\"", .absent), (", ,max-age=60,,", .value(60)),
        ("", .absent), ("no-store", .absent),
    ])
    func secondsAreReadOrInvalid(_ text: String, _ seconds: CacheControl.Seconds) {
        #expect(control(text).seconds("max-age") == seconds)
    }

    @Test func linesAreOneList() {
        let control = control("max-age=5, no-cache=\"A, b\"", "Public")
        #expect(control.seconds("max-age") == .value(5))
        #expect(control.contains("public"))
        #expect(control.fieldNames("no-cache") == ["a", "b"])
        #expect(!control.isUnqualified("no-cache"))
    }

    @Test(arguments: ["no store", "=5", "(no-store)", "no-store; max-age=5"])
    func invalidDirectivesAreIgnored(_ text: String) {
        #expect(!control(text).contains("no-store"))
        #expect(control(text).seconds("max-age") == .absent)
    }

    @Test(arguments: [
        ("max-age=60", "max-age=5"), ("max-age=60;a=1, no-cache", "max-age=5"), ("foo=?1, max-age=60", ""),
        ("*a=tok/en, max-age=60", ""), ("foo=:YQ==:, max-age=60", ""), ("foo=\"x, y\", max-age=60", ""),
    ])
    func aTargetedFieldReplacesCacheControl(_ value: String, _ other: String) {
        #expect(targeted(value, other).seconds("max-age") == .value(60))
    }

    @Test(arguments: [("public=?0", false), ("public=?1", true), ("public", true), ("public, public=?0", false)])
    func falseIsNoDirective(_ value: String, _ isPublic: Bool) {
        // The targeted field is valid, so it replaces `Cache-Control`.
        let control = targeted(value)
        #expect(control.contains("public") == isPublic)
        #expect(control.seconds("max-age") == .absent)
    }

    @Test(arguments: ["max-age=60, &&&", "max-age=\"60\"", "Max-Age=60", "max-age =60", "max-age=", "", "max-age=?1"])
    func targetedFieldThatIsNotADictionaryIsIgnored(_ value: String) {
        #expect(targeted(value).seconds("max-age") == .value(5))
    }
}
