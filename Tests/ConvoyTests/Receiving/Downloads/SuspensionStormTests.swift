import Foundation
import Testing

@testable import Convoy

/// An attempt that a suspension ended has written its last before the next one asks how much is there.
@Suite(.timeLimit(.minutes(2))) struct SuspensionStormTests {
    private let directory: TemporaryDirectory

    init() throws { directory = try TemporaryDirectory() }

    @Test(arguments: [true, false]) func bytesOfTwoAttemptsDoNotMix(pausesInPlace: Bool) async throws {
        let version = FileVersion(FileVersion.seeded(5, byteCount: 2_000_000))
        for round in 0..<60 {
            let server = StubServer(pausesInPlace: pausesInPlace) { exchange in
                DispatchQueue.global().async { version.answer(exchange) }
            }
            let target = directory.file("\(round)")
            let sending = Sending(Request.stub("a").saved(to: target), over: server.transport)
            for turn in 0..<30 where !sending.operation.isFinished {
                sending.operation.suspend()
                if turn % 3 == 0 { usleep(UInt32(round * 10)) }
                sending.operation.resume()
                usleep(UInt32(turn * round % 900))
            }
            let result = try await sending.result()
            #expect(result.code == nil, "round \(round)")
            let isRight = try result.code != nil || Data(contentsOf: target) == version.content
            #expect(isRight, "round \(round)")
        }
    }
}
