import Foundation
import Testing

@testable import Convoy
@testable import ConvoyCommand

private func transfer(
    _ received: Int64, of expected: Int64?, index: Int = 0, name: String? = nil, resumed: Int64 = 0,
    wait: RunningTransfer.Wait? = nil
) -> RunningTransfer {
    RunningTransfer(
        item: FetchItem(index: index, url: URL(filePath: "/"), fileName: name ?? "file\(index).iso"),
        receivedBytes: received, resumedBytes: resumed, expectedBytes: expected, wait: wait)
}

@Suite struct FetchScreenTests {
    @Test(arguments: [1, 10, 20, 40, 80, 200], [1, 2, 3, 5, 24])
    func linesFitEveryTerminal(width: Int, height: Int) throws {
        var screen = FetchScreen(maxAttempts: 4)
        let size = Terminal.Size(width: width, height: height)
        let running = (0..<12).map { index in
            transfer(
                Int64(index) * 1_000, of: index % 2 == 0 ? 100_000 : nil, index: index,
                name: "\u{6F22}\u{5B57}-long-name-of-a-file-\(index).bin")
        }
        let lines = screen.lines(RunProgress(), running, size: size, now: .now)
        #expect(lines.count == min(13, max(1, height - 1)) || height == 3)
        #expect(lines.allSatisfy { $0.columnCount <= max(1, width - 1) })
    }

    private let start = ContinuousClock.now
    private let wide = Terminal.Size(width: 120, height: 24)

    /// Returns the lines after `seconds` in which each file receives a megabyte a second.
    private func lines(
        after seconds: Int, of count: Int = 1, resumed: Int64 = 0, size: Terminal.Size, totalCount: Int? = nil
    ) -> [String] {
        var screen = FetchScreen(maxAttempts: 4)
        var lines: [String] = []
        for tick in 0...seconds * 10 {
            let running = (0..<count).map { index in
                transfer(resumed + Int64(tick) * 100_000, of: 10_000_000, index: index, resumed: resumed)
            }
            let received = running.reduce(0) { $0 + $1.receivedBytes }
            let progress = RunProgress(
                totalCount: totalCount ?? count, receivedBytes: received, resumedBytes: resumed * Int64(count))
            lines = screen.lines(progress, running, size: size, now: start + .milliseconds(tick * 100))
        }
        return lines
    }

    @Test func ratesAppearAfterASecondAndTimesLeftAfterTwo() throws {
        let begun = try #require(lines(after: 0, size: wide).first)
        #expect(begun.hasSuffix("  0 %         0 B of 10.0 MB"))
        let second = try #require(lines(after: 1, size: wide).first)
        #expect(second.hasSuffix(" 10 %      1.0 MB of 10.0 MB    1.0 MB/s"))
        let third = try #require(lines(after: 3, size: wide).first)
        #expect(third.hasPrefix("file0.iso "))
        #expect(third.contains("[==="))
        #expect(third.hasSuffix(" 30 %      3.0 MB of 10.0 MB    1.0 MB/s    0:07"))
    }

    @Test func aNarrowTerminalKeepsRateAndTimeLeft() throws {
        let narrow = lines(after: 3, of: 2, size: Terminal.Size(width: 40, height: 12))
        #expect(narrow.allSatisfy { $0.columnCount <= 39 })
        #expect(narrow.first == "file0.iso      30 %    1.0 MB/s    0:07")
        #expect(narrow.last == "0 of 2 files   30 %    2.0 MB/s    0:07")
    }

    @Test func aFileWithoutProgressIsStalled() throws {
        var screen = FetchScreen(maxAttempts: 4)
        func line(_ bytes: Int64, _ seconds: Int) -> String {
            let (running, now) = (transfer(bytes, of: 10_000_000), start + .seconds(seconds))
            let progress = RunProgress(totalCount: 1, receivedBytes: bytes)
            return screen.lines(progress, [running], size: wide, now: now).first ?? ""
        }
        for second in 0...3 { _ = line(Int64(second) * 1_000_000, second) }
        #expect(!line(3_000_000, 7).contains("stalled"))
        #expect(line(3_000_000, 8).hasSuffix(" 30 %      3.0 MB of 10.0 MB     stalled"))
        #expect(!line(4_000_000, 9).contains("stalled"))
    }

    @Test func aWaitingFileShowsTheReason() {
        var screen = FetchScreen(maxAttempts: 4)
        let due = start + .milliseconds(500)
        let waits: [RunningTransfer.Wait] = [
            .answer, .retry(attempt: 1, cause: "the connection was refused", due: due),
            .retry(attempt: 3, cause: "503 Service Unavailable", due: due), .host,
        ]
        let running = waits.enumerated().map { transfer(0, of: nil, index: $0, wait: $1) }
        let size = Terminal.Size(width: 80, height: 24)
        let lines = screen.lines(RunProgress(totalCount: 4), running, size: size, now: start)
        let name = String(repeating: " ", count: 10)
        #expect(
            lines.dropLast() == [
                "file0.iso\(name)  waiting for the server",
                "file1.iso\(name)  the connection was refused; attempt 2 of 4 in 0.5 s",
                "file2.iso\(name)  503 Service Unavailable; attempt 4 of 4 in 0.5 s",
                "file3.iso\(name)  waiting for other files from the same host",
            ])
        // No bytes of a file have arrived.
        #expect(lines.last?.hasSuffix("  0 %") == true || lines.last?.contains("  0 %  ") == true)
    }

    /// Checks seven sizes: bars are no wider than their names, counts and emoji are uncut, failures are below.
    @Test(arguments: [(24, 6), (40, 12), (60, 8), (80, 24), (100, 5), (132, 43), (220, 50)])
    func everySizeShowsNamesBarsCountsAndFailures(width: Int, height: Int) throws {
        let family = "\u{1F468}\u{200D}\u{1F469}\u{200D}\u{1F467}"
        let name = String(repeating: family, count: 30) + ".iso"
        var screen = FetchScreen(maxAttempts: 4)
        let size = Terminal.Size(width: width, height: height)
        var lines: [String] = []
        for second in 0...3 {
            let running = (0..<2).map { transfer(Int64(second) * 1_000_000, of: 10_000_000, index: $0, name: name) }
            let progress = RunProgress(
                finishedCount: 1_234, failedCount: 12, skippedCount: 3, totalCount: 3_000,
                receivedBytes: Int64(second) * 2_000_000)
            lines = screen.lines(progress, running, size: size, now: start + .seconds(second))
        }
        #expect(lines.count == 4)
        #expect(lines.allSatisfy { $0.columnCount < width })
        #expect(lines.last == "12 failed, 3 skipped")
        let total = try #require(lines.dropLast().last)
        #expect(total.hasPrefix("1234 of 3000") || total.hasPrefix("1234/3000"))
        for line in lines.prefix(2) {
            let emoji = line.prefix { $0 == Character(family) }
            #expect(emoji.count > 1)
            // The rest of the line contains no part of a cut emoji.
            #expect(line.dropFirst(emoji.count).unicodeScalars.allSatisfy { $0.isASCII }, "\(line)")
        }
        for line in lines.prefix(3) {
            guard let start = line.firstIndex(of: "["), let end = line.firstIndex(of: "]") else { continue }
            let columns = String(line[..<start]).columnCount - 2
            #expect(line.distance(from: start, to: end) + 1 <= columns, "\(line)")
        }
        #expect(lines.prefix(3).allSatisfy { $0.contains("[") } == (width >= 60))
        let percents = lines.prefix(3).map { $0.split(separator: "%").first.map { String($0).columnCount } }
        #expect(Set(percents).count == 1)
    }
}

@Suite struct RunTotalsTests {
    @Test func unknownSizesAreTheMeanOfTheKnown() {
        // A file of 300 bytes is complete and one of 500 runs. Another runs without a size, and one has not begun.
        // The mean is 400.
        let progress = RunProgress(
            finishedCount: 1, totalCount: 4, receivedBytes: 700, savedCount: 1, savedBytes: 300)
        let totals = RunTotals(progress, [transfer(250, of: 500), transfer(150, of: nil)])
        #expect(totals.remainingBytes.map { abs($0 - 900) < 1 } == true)
        #expect(totals.isEstimate)
        // A file of unknown size that has received more than the mean adds no remaining bytes.
        #expect(RunTotals(progress, [transfer(500, of: 500), transfer(900, of: nil)]).remainingBytes == 400)
    }

    @Test func announcedSizesOverflowNothing() {
        let huge = (0..<4).map { _ in transfer(1, of: .max) } + [transfer(1, of: nil), transfer(1, of: -5)]
        #expect((RunTotals(RunProgress(totalCount: 9, receivedBytes: 6), huge).fraction ?? 1) < 0.01)
    }
}

@Suite struct ArrivalMeterTests {
    private let start = ContinuousClock.now

    /// Returns a meter with ten samples a second until a moment, and that moment.
    private func meter(
        _ milliseconds: Int, from first: Int = 0, bytes: (Int) -> Int64
    ) -> (meter: ArrivalMeter, now: ContinuousClock.Instant) {
        var meter = ArrivalMeter()
        for moment in stride(from: first, through: milliseconds, by: 100) {
            meter.note(bytes(moment), at: start + .milliseconds(moment))
        }
        return (meter, start + .milliseconds(milliseconds))
    }

    /// Sources of 1,000 bytes a second: their bytes after a number of milliseconds.
    private static let sources: [@Sendable (Int) -> Int64] = [
        { Int64($0) },
        // The bytes of a second arrive at once, as with nginx's limit: at the start of each second, or in its middle.
        { Int64($0 / 1_000 + 1) * 1_000 }, { Int64(($0 + 500) / 1_000) * 1_000 },
        // The source is silent for two seconds first.
        { Int64(max(0, $0 - 2_000)) },
        // Twice the bytes arrive in every other tenth of a second.
        { Int64($0 / 200 * 200) },
    ]

    @Test(arguments: 0..<5) func theRateIsTrueFromTheThirdSecondOn(source: Int) throws {
        for milliseconds in stride(from: source == 3 ? 5_000 : 3_000, through: 15_000, by: 100) {
            let (meter, now) = meter(milliseconds, bytes: Self.sources[source])
            let rate = try #require(meter.bytesPerSecond(at: now))
            #expect(abs(rate - 1_000) <= 150, "after \(milliseconds) ms")
        }
    }

    @Test func overdueBytesLowerTheRateUntilItIsStalled() throws {
        let (meter, now) = meter(4_000) { Int64($0) }
        let late = try #require(meter.bytesPerSecond(at: now + .seconds(4)))
        #expect(late > 400 && late < 600)
        #expect(!meter.isStalled(at: now + .milliseconds(4_999)))
        #expect(meter.isStalled(at: now + .seconds(5)))
        #expect(meter.bytesPerSecond(at: now + .seconds(5)) == 0)
        #expect(meter.secondsLeft(for: 1, at: now + .seconds(5)) == nil)
    }

    @Test func afterAStallTheRateBeginsAnew() {
        var (meter, now) = meter(3_000) { Int64($0) }
        now += .seconds(60)
        meter.note(3_500, at: now)
        // Only the 500 bytes that arrived after the stall count.
        #expect(meter.bytesPerSecond(at: now + .seconds(1)) == 500)
        for tenth in 1...30 { meter.note(3_500 + Int64(tenth) * 500, at: now + .milliseconds(tenth * 100)) }
        #expect(meter.bytesPerSecond(at: now + .seconds(3)).map { abs($0 - 5_000) < 1 } == true)
    }
}
