import Convoy
import Foundation
import Testing

@testable import ConvoyCache

struct FreshnessTests {
    private static let now: Int64 = 1_700_000_000

    private func freshness(
        _ fields: HeaderFields, status: Int = 200, delay: Int64 = 0, sharing: CacheSharing = .private
    ) -> Freshness {
        Freshness(
            statusCode: status, headerFields: fields, requestTime: Self.now - delay, responseTime: Self.now,
            sharing: sharing)
    }

    private func date(_ offset: Int64) -> String { HTTPDateText.text(Self.now + offset) }

    @Test func theFirstFieldWithALifetimeIsUsed() {
        #expect(freshness(["Cache-Control": "max-age=5", "Expires": date(60)]).lifetime == 5)
        #expect(freshness(["Cache-Control": "max-age=x", "Expires": date(60)]).lifetime == 0)
        #expect(freshness(["Expires": date(60), "Date": date(10)]).lifetime == 50)
        #expect(freshness(["Expires": date(60)]).lifetime == 60)
        #expect(freshness(["Expires": date(-60)]).lifetime == 0)
        #expect(freshness(["Expires": date(60), "Expires": date(60)]).lifetime == 60)
        #expect(freshness(["Expires": date(60), "Expires": date(61)]).lifetime == 0)
        #expect(freshness(["Cache-Control": "s-maxage=9, max-age=5"]).lifetime == 5)
        #expect(freshness(["Cache-Control": "s-maxage=9, max-age=5"], sharing: .shared()).lifetime == 9)
        #expect(freshness([:]).lifetime == 0)
    }

    @Test(arguments: [
        "0", "", "Thu, 01 Jan 2099 00:00:00 UTC", "Thu, 01 Jan 2099 00:00:00 +0000", "Thu, 1 Jan 2099 00:00:00 GMT",
        "Thu 01 Jan 2099 00:00:00 GMT", "Thu, 01 Jan 2099 0:00:00 GMT", "Thu, 01-Jan-2099 00:00:00 GMT",
        "Thu, 01 Jan 2099 00.00.00 GMT", "Thu, 01  Jan 2099 00:00:00 GMT", "2099-01-01T00:00:00Z",
    ])
    func invalidExpiresIsInThePast(_ text: String) {
        #expect(freshness(["Expires": text, "Last-Modified": date(-100_000)]).lifetime == 0)
    }

    @Test(arguments: [
        "Thu, 01 Jan 2099 00:00:00 GMT", "thu, 01 jan 2099 00:00:00 gmt", "Thursday, 01-Jan-37 00:00:00 GMT",
        "Thu Jan  1 00:00:00 2099",
    ])
    func allFormsOfDatesAreRead(_ text: String) { #expect(freshness(["Expires": text]).lifetime > 100_000) }

    @Test func guessIsATenthAndBounded() {
        let fields: HeaderFields = ["Date": date(0), "Last-Modified": date(-1000)]
        #expect(freshness(fields).lifetime == 100)
        #expect(freshness(fields).isHeuristic)
        #expect(freshness(["Date": date(0), "Last-Modified": date(-100_000_000)]).lifetime == 86_400)
        #expect(freshness(["Date": date(0), "Last-Modified": date(1000)]).lifetime == 0)
        #expect(freshness(fields, status: 201).lifetime == 0)
        #expect(freshness(fields, status: 404).lifetime == 100)
        var marked = fields
        marked["Cache-Control"] = "public"
        #expect(freshness(marked, status: 599).lifetime == 100)
    }

    /// The response is fresh only if it has an explicit lifetime.
    @Test(arguments: [
        (["no-cache"], true), (["NO-CACHE"], true), (["x, no-cache"], true), (["x", "no-cache"], true),
        (["no-cache, x=y"], true), (["x"], false), (["no-store"], false), (["max-age=0"], false), ([], false),
    ])
    func pragmaNoCacheStopsHeuristicsOnly(_ lines: [String], stops: Bool) {
        for control in [nil, "public", "private", "must-revalidate"] {
            var fields: HeaderFields = ["Date": date(0), "Last-Modified": date(-1000)]
            fields["Cache-Control"] = control
            for line in lines { fields.add("Pragma", line) }
            #expect(freshness(fields).lifetime == (stops ? 0 : 100))
            #expect(freshness(fields, sharing: .shared()).lifetime == (stops ? 0 : 100))
            fields["Cache-Control"] = "max-age=60"
            #expect(freshness(fields).lifetime == 60)
            fields["Cache-Control"] = nil
            fields["Expires"] = date(60)
            #expect(freshness(fields).lifetime == 60)
        }
    }

    @Test func ageCountsClocksAndDelays() {
        #expect(freshness([:]).initialAge == 0)
        #expect(freshness(["Age": "7"]).initialAge == 7)
        #expect(freshness(["Age": "7"], delay: 3).initialAge == 10)
        #expect(freshness(["Date": date(-20), "Age": "7"]).initialAge == 20)
        #expect(freshness(["Date": date(20), "Age": "7"]).initialAge == 7)
        #expect(freshness(["Age": "7, 9"]).initialAge == 7)
        #expect(freshness(["Age": "9", "Age": "7"]).initialAge == 9)
        for invalid in ["abc", "-7", "7.0", "", "7;a"] { #expect(freshness(["Age": invalid]).initialAge == 0) }
        #expect(freshness(["Age": "99999999999999999999"]).initialAge == DeltaSeconds.most)
        // The age increased while the response was stored.
        #expect(freshness(["Age": "7"]).age(at: Self.now + 5) == 12)
    }

    @Test func targetedFieldReplacesExpires() {
        let sharing = CacheSharing.shared(targets: ["CDN-Cache-Control"])
        let fields: HeaderFields = ["CDN-Cache-Control": "must-revalidate", "Expires": date(86_400)]
        #expect(freshness(fields, sharing: sharing).lifetime == 0)
        #expect(freshness(fields, sharing: .shared()).lifetime == 86_400)
        let invalid: HeaderFields = ["CDN-Cache-Control": "&", "Expires": date(86_400)]
        #expect(freshness(invalid, sharing: sharing).lifetime == 86_400)
        #expect(freshness(["Cache-Control": "max-age=5", "CDN-Cache-Control": "max-age=50"]).lifetime == 5)
    }

    @Test(arguments: [Int64(0), 951_782_399, 951_782_400, 1_700_000_000, 4_102_444_799, -1, -86_401, 253_402_300_799])
    func datesAreWrittenAsTheyAreRead(_ seconds: Int64) {
        let now = Date(timeIntervalSince1970: 1_700_000_000)
        #expect(HTTPDate(HTTPDateText.text(seconds), now: now)?.secondsSince1970 == seconds)
    }
}
