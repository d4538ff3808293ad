import Foundation
import Testing

@testable import Convoy

@Suite struct BatchProgressTests {
    private func post(_ name: String, _ byteCount: Int) -> Request<Data> {
        .post("http://stub/\(name)").body(Data(count: byteCount), contentType: "text/plain")
    }

    private func progress(sent: Int64, of toSend: Int64?, received: Int64 = 0, of total: Int64? = nil)
        -> TransferProgress
    {
        TransferProgress(
            upload: ByteProgress(completedBytes: sent, totalBytes: toSend),
            download: ByteProgress(completedBytes: received, totalBytes: total))
    }

    @Test func progressCountsBothDirectionsAndKnownTotals() async {
        let server = StubServer.held()
        let batch = server.manager().batch([post("a", 100), post("b", 300), post("c", 500)])
        let exchanges = await server.exchanges.wait(count: 3).sorted { $0.request.url.path < $1.request.url.path }
        #expect(batch.currentProgress.upload.totalBytes == 900)
        exchanges[0].sent(totalBytes: 50)
        exchanges[1].sent(totalBytes: 300)
        #expect(batch.currentProgress.upload.completedBytes == 350)
        #expect(batch.currentProgress.upload.totalBytes == 900)
        exchanges[1].respond(ResponseHead(statusCode: 200, expectedBytes: 1_000))
        exchanges[1].send(Data(count: 10))
        // This response announces no length.
        exchanges[2].respond(ResponseHead(statusCode: 200))
        exchanges[2].send(Data(count: 7))
        #expect(batch.currentProgress.download.completedBytes == 17)
        #expect(batch.currentProgress.download.totalBytes == 1_007)
        exchanges[1].finish(RequestError(.connectionLost, "cut"))
        exchanges[2].finish()
        exchanges[0].sent(totalBytes: 100)
        exchanges[0].answer(200)
        await batch.finished()
        #expect(batch.currentProgress.upload.completedBytes == 400)
        #expect(batch.currentProgress.upload.totalBytes == 400)
        #expect(batch.currentProgress.download.completedBytes == 17)
        // The total of a finished request is the number of bytes that it received.
        #expect(batch.currentProgress.download.totalBytes == 17)
    }

    @Test func sentBytesMoveTheFraction() {
        var meter = BatchMeter()
        meter.expect(2)
        meter.start(0)
        meter.start(1)
        let now = ContinuousClock.now
        meter.move(0, progress(sent: 500, of: 1_000, received: 0, of: 1_000), at: now)
        #expect(meter.progress.fractionCompleted == 0.125)
        // A small body that was sent is not yet the complete request.
        meter.move(1, progress(sent: 10, of: 10), at: now)
        #expect(meter.progress.fractionCompleted < 0.126)
        meter.move(1, progress(sent: 10, of: 10, received: 10, of: 10), at: now)
        #expect(abs(meter.progress.fractionCompleted - 0.625) < 1e-9)
        meter.finish(1, isSuccess: true)
        #expect(abs(meter.progress.fractionCompleted - 0.625) < 1e-9)
    }

    @Test func lengthsOfAnySizeAreCounted() {
        var meter = BatchMeter()
        for index in 0..<3 {
            meter.start(index)
            meter.move(index, progress(sent: 0, of: nil, received: 1, of: .max), at: ContinuousClock.now)
        }
        for index in 0..<3 { meter.finish(index, isSuccess: true) }
        #expect(meter.progress.download.completedBytes == 3)
        #expect(meter.progress.download.totalBytes == 3)
    }

    @Test func theRateIsThatOfAllMembers() {
        var meter = BatchMeter()
        let now = ContinuousClock.now
        for index in 0..<2 { meter.start(index) }
        meter.move(0, progress(sent: 0, of: nil, received: 100), at: now)
        meter.move(1, progress(sent: 0, of: nil, received: 300), at: now + .seconds(1))
        #expect(meter.progress.download.bytesPerSecond == 300)
        #expect(meter.progress.upload.bytesPerSecond == nil)
    }

    @Test func anIntervalIsKeptToOnTheClockOfTheManager() async {
        let clock = VirtualClock()
        let batch = StubServer().manager(clock: clock).batch([Request<Data>.stub("a")])
        let progress = batch.progress(every: .seconds(1))
        #expect(progress.pace?.interval == .seconds(1))
        #expect(progress.pace?.clock === clock)
        await batch.finished()
        var last: BatchProgress?
        for await value in progress { last = value }
        #expect(last == batch.currentProgress)
    }
}
