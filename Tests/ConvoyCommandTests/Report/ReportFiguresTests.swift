import Foundation
import Testing

@testable import Convoy
@testable import ConvoyCommand

@Suite struct ReportFiguresTests {
    /// - Parameter milliseconds: nil for a request that was never sent.
    private func record(
        _ milliseconds: Int?, url: String = "http://a/x", name: String? = nil, method: String = "GET",
        code: String? = nil, status: Int? = 200
    ) throws -> RequestRecord {
        var line = EventLine(
            event: code == nil ? "finished" : "failed", index: 0, name: name, method: method, url: url, status: status,
            code: code)
        line.queuedAt = 1_000
        if let milliseconds {
            line.lifeSeconds = Double(milliseconds) / 1e3 + 0.5
            line.timeline = [AttemptLine(start: 0.5, wait: Double(milliseconds) / 1e3, receive: 0)]
        }
        return try #require(RequestRecord(line, run: 0))
    }

    @Test func percentilesAreTheNearestRanks() throws {
        #expect(TimeFigures([]) == nil)
        let one = try #require(TimeFigures([7]))
        #expect([one.median, one.ninety, one.ninetyNine, one.longest] == [7, 7, 7, 7])
        let hundred = try #require(TimeFigures((1...100).reversed()))
        #expect([hundred.median, hundred.ninety, hundred.ninetyNine, hundred.longest] == [50, 90, 99, 100])
        let three = try #require(TimeFigures([30, 10, 20]))
        #expect([three.median, three.ninety, three.ninetyNine] == [20, 30, 30])
        #expect(one.text == "times: 50 % within 0 ms, 90 % within 0 ms, 99 % within 0 ms, the longest 0 ms")
    }

    @Test(arguments: [[1], [1, 1_000_000], [5, 6], [0, 0], [100, 300], [0, 40_000]])
    func everyTimeIsInOneBarBetweenItsEdges(milliseconds: [Int]) throws {
        let records = try milliseconds.map { try record($0) } + [record(nil, code: "dependencyFailed", status: nil)]
        let histogram = TimeHistogram([records, Array(records.prefix(1))])
        #expect(histogram.edges == histogram.edges.sorted())
        #expect(histogram.bars.map { $0.reduce(0) { $0 + $1.count } } == [milliseconds.count, 1])
        for time in records.compactMap(\.time) {
            let place = try #require(TimeHistogram([records, []]).edges.dropLast().lastIndex { $0 <= max(time, 10) })
            #expect(histogram.bars[0].indices.contains(place))
        }
        #expect((histogram.edges.last ?? 0) >= Int64(milliseconds.max() ?? 0) * 1_000)
        #expect(histogram.isLogarithmic == ((milliseconds.max() ?? 0) > (milliseconds.min() ?? 0) * 4 + 1))
    }

    @Test func failuresAreCountedInTheirBar() throws {
        let failed = try record(10, code: "timedOut")
        let histogram = TimeHistogram([[try record(10), failed, failed]])
        #expect(histogram.bars[0].filter { $0.count > 0 } == [TimeHistogram.Bar(count: 3, failed: 2)])
        #expect(TimeHistogram([[]]).edges == [])
    }

    @Test(arguments: [
        ("http://h:80/items/12?x=1", "", "h:80", "GET /items/*"), ("http://h", "", "h", "GET"),
        ("/a/1b22#c", "", "", "GET /a/*b*"), ("http://h/7", "login", "h", "login"), ("", "", "", "GET"),
        ("https://[::1]:8/\u{E4}1", "", "[::1]:8", "GET /\u{E4}*"),
    ])
    func groupsAreHostNameAndStatus(url: String, name: String, host: String, path: String) throws {
        let record = try record(1, url: url, name: name)
        #expect(record.group(by: .host) == host.replacing("\u{E4}", with: "%C3%A4"))
        #expect(record.group(by: .name).removingPercentEncoding == path)
        #expect(record.group(by: .status) == "200")
    }

    @Test func requestsWithoutAStatusAreGroupedByCode() throws {
        #expect(try record(1, code: "timedOut", status: nil).group(by: .status) == "timedOut")
        #expect(try record(1, status: nil).group(by: .status) == "succeeded")
    }

    @Test func groupsOfTwoReportsStandBesideEachOther() throws {
        let before = [try record(10, name: "a"), try record(20, name: "b"), try record(30, name: "b")]
        let after = [try record(40, name: "b", code: "timedOut"), try record(50, name: "c")]
        let groups = RequestGroups([before, after], by: .name)
        #expect(groups.groups.map(\.name) == ["b", "a", "c"])
        #expect(groups.groups[0].cells.map(\.count) == [2, 1])
        #expect(groups.groups[0].cells.map(\.failed) == [0, 1])
        #expect(groups.groups[0].cells.map { $0.times.max() } == [30_000, 40_000])
        #expect(groups.groups[2].cells[0] == RequestGroups.Cell())
    }

    @Test func groupsAreBoundedAndCounted() throws {
        let records = try (0..<300).map { try record(1, name: "n\(String($0, radix: 2))") }
        let groups = RequestGroups([records], by: .name)
        #expect((groups.groups.count, groups.count) == (RequestGroups.limit, 300))
    }

    @Test func requestsOfTwoReportsAreMatched() throws {
        let before = [
            try record(10, url: "http://a/1"), try record(20, url: "http://a/1"),
            try record(10, url: "http://a/2", code: "timedOut"), try record(5, url: "http://a/3"),
            try record(5, url: "http://a/gone"),
        ]
        let after = [
            try record(15, url: "http://a/1"), try record(90, url: "http://a/1"), try record(9, url: "http://a/2"),
            try record(5, url: "http://a/3", code: "timedOut"), try record(5, url: "http://a/3", method: "PUT"),
        ]
        let comparison = ReportComparison(before, after)
        #expect(comparison.pairCount == 4)
        #expect((comparison.onlyBefore, comparison.onlyAfter) == (1, 1))
        #expect(comparison.broken.map(\.after) == [3])
        #expect(comparison.repaired.map(\.before) == [2])
        #expect(comparison.slowed.map(\.difference) == [70_000, 5_000])
        #expect(comparison.slowed.map(\.after) == [1, 0])
        #expect(
            comparison.text
                == "4 requests in both, 1 fails now, 1 fails no longer, 1 only in the first, 1 only in the second")
        #expect(ReportComparison(before, before).text == "5 requests in both")
    }

    @Test func theSlowestComeFirst() throws {
        let records = try (0..<30).map { try record($0 * 7 % 30) } + [record(nil, code: "cancelled")]
        let times = PageFigures.slowest(records).map { records[$0].time }
        #expect(times == (20..<30).reversed().map { Int64($0) * 1_000 })
    }
}

@Suite struct ShownCommandLineTests {
    private func shown(_ verb: Verb, _ arguments: [String]) -> String {
        (try? OptionScanner(verb).scan(arguments)).map { ShownCommandLine.text(verb, $0) } ?? ""
    }

    private func fetch(_ arguments: String...) -> String { shown(.fetch, arguments) }

    @Test func possibleSecretsAreOmittedFromTheTitle() {
        #expect(
            fetch("-u", "me:hidden", "-H", "X: hidden", "--data=hidden", "-b", "hidden", "-E", "c:hidden", "-j4", "a")
                == "convoy fetch --user … --header … --data … --cookie … --cert … --jobs 4 a")
        #expect(fetch("-x", "http://me:hidden@p:1", "http://me:hidden@h/?token=hidden&b=1").contains("hidden") == false)
        #expect(fetch("me:hidden@h/x") == "convoy fetch h/x")
        #expect(shown(.run, ["a.http", "--variable", "password=hidden"]) == "convoy run --variable … a.http")
    }

    @Test func argumentsAreQuotedAndLongListsAreShortened() {
        #expect(fetch("-P", "a b", "--quiet", "it's") == #"convoy fetch --directory-prefix 'a b' --quiet 'it'\''s'"#)
        #expect(fetch("a", "b", "c", "d", "e") == "convoy fetch a b c … and 2 more")
    }
}
