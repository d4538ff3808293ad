import ConvoyTesting
import Foundation
import Testing

@testable import Convoy

@Suite struct HARTimingsTests {
    private func timings(
        total: Int, firstByte: Int? = nil, hasAnswer: Bool = true, _ change: ((inout TransferMetrics) -> Void)? = nil
    ) -> HARTimings {
        var metrics = TransferMetrics()
        change?(&metrics)
        return HARTimings(
            waited: .microseconds(50), delay: .microseconds(20), total: .microseconds(total),
            firstByte: firstByte.map { .microseconds($0) }, hasAnswer: hasAnswer, metrics: change == nil ? nil : metrics
        )
    }

    @Test func everyPhaseHasItsPart() {
        let secure = timings(total: 1_000) { metrics in
            metrics.nameLookup = .microseconds(100)
            metrics.connect = .microseconds(250)
            metrics.secureConnect = .microseconds(600)
            metrics.firstByte = .microseconds(900)
        }
        #expect([secure.dns, secure.connect, secure.ssl] == [100, 500, 350])
        #expect([secure.blocked, secure.queued, secure.wait, secure.receive] == [50, 30, 300, 100])
        #expect(secure.time == 1_050)
    }

    @Test func aConnectionThatNeverCameAboutTookTheTime() {
        let failed = timings(total: 1_000, hasAnswer: false) { $0.nameLookup = .microseconds(100) }
        #expect([failed.dns, failed.connect, failed.wait, failed.receive] == [100, 900, 0, 0])
    }

    @Test func thePhasesAddUpToTheTotal() {
        var random = SeededGenerator(seed: 12)
        for _ in 0..<1_000 {
            let total = Int.random(in: 0...3_000, using: &random)
            let moments = (0..<4).map { _ in
                Duration.nanoseconds(Int64.random(in: -500_000...4_000_000, using: &random))
            }
            let isSecure = Bool.random(using: &random)
            let isReused = Bool.random(using: &random)
            let hasAnswer = Bool.random(using: &random)
            let phases = timings(total: total, firstByte: -7, hasAnswer: hasAnswer) { metrics in
                (metrics.nameLookup, metrics.connect, metrics.firstByte) = (moments[0], moments[1], moments[2])
                if isSecure { metrics.secureConnect = moments[3] }
                metrics.isReusedConnection = isReused
            }
            #expect(phases.time == Int64(50 + total), "\(phases)")
            let all = [phases.dns, phases.connect, phases.ssl, phases.wait, phases.receive, phases.queued].compactMap {
                $0
            }
            #expect(all.allSatisfy { $0 >= 0 }, "\(phases)")
            #expect(phases.ssl ?? 0 <= phases.connect ?? 0, "\(phases)")
        }
    }
}
