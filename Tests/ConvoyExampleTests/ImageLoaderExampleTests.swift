// An image loader as in an app. The loader and the cells that show its images belong to the main actor.
import Convoy
import ConvoyTesting
import Foundation
import Testing

/// An image that is decoded on a thread of the library and shown on the main actor.
///
/// It is a class, so that equal requests share one instance.
nonisolated final class Picture: Sendable {
    let pixels: Data
    init(file: Data) { pixels = file.dropFirst(3) }
}

@MainActor final class ImageLoader {
    private(set) var pictures: [Int: Picture] = [:]
    private let manager: RequestManager
    // Every request of the loader is a copy of this one, so equal requests share one transfer.
    private let thumbnail = Request<Data>.get("thumbnail").decoding { file, _ in Picture(file: file) }.coalesced()

    init(_ manager: RequestManager) { self.manager = manager }

    func prefetch(_ ids: [Int]) { for id in ids { load(id, .low) } }
    @discardableResult
    func load(_ id: Int, _ priority: Operation.QueuePriority, for cell: Cell? = nil) -> AnyRequestOperation {
        let operation = manager.operation(thumbnail.query("id", "\(id)").priority(priority))
        operation.onProgress(on: .main) { [weak cell] in cell?.progressed($0.download.fractionCompleted ?? 0, of: id) }
        operation.onFinish(on: .main) { [weak self, weak cell] result in
            guard let picture = try? result.get().value else { return }
            self?.pictures[id] = picture
            cell?.loaded(picture, of: id)
        }
        manager.enqueue(operation)
        return operation
    }
}

@MainActor final class Cell {
    private(set) var picture: Picture?
    let (fractions, progressBar) = AsyncStream.makeStream(of: Double.self)
    private var (id, loading): (Int?, AnyRequestOperation?)

    func show(_ id: Int, from loader: ImageLoader) {
        scrolledAway()
        (self.id, picture) = (id, loader.pictures[id])
        if picture == nil { loading = loader.load(id, .high, for: self) }
    }

    func scrolledAway() {
        loading?.cancel()
        (id, picture, loading) = (nil, nil, nil)
    }

    // Progress and images of an earlier picture may arrive after its cancellation. The cell ignores them.
    func progressed(_ fraction: Double, of id: Int) { if id == self.id { progressBar.yield(fraction) } }
    func loaded(_ picture: Picture, of id: Int) { if id == self.id { self.picture = picture } }
}

@Suite(.timeLimit(.minutes(2))) struct ImageLoaderExampleTests {
    @Test func cellsShareATransferAndLeaveIt() async throws {
        let (server, gate, file) = (try TestServer(), Gate(), Data("IMG".utf8) + Data(count: 97))
        server.respond { _ in .body(file).stalling(afterBodyBytes: 50, until: gate) }
        let manager = RequestManager(configuration: .init(maxConcurrentOperationCount: 1, baseURL: server.url()))
        let (loader, cells) = (ImageLoader(manager), (0..<5).map { _ in Cell() })
        for cell in cells[0...2] { cell.show(1, from: loader) }
        for cell in cells[0...2] { for await fraction in cell.fractions where fraction == 0.5 { break } }
        // The only slot is occupied. Images for visible cells precede prefetched images, even if the prefetch was
        // enqueued first.
        loader.prefetch([2, 3])
        cells[3].show(3, from: loader)
        cells[4].show(4, from: loader)
        for cell in [cells[1], cells[4]] { cell.scrolledAway() }
        gate.open()
        await manager.drain()
        // Cells 1 and 4 have scrolled away, so they show no image. The other cells are not affected.
        #expect(cells.map { $0.picture?.pixels.count } == [97, nil, 97, 97, nil])
        #expect(loader.pictures.keys.sorted() == [1, 2, 3])
        // Images 1, 2 and 3 were requested once each. Image 4 was never requested, because cell 4 scrolled away first.
        #expect(server.recordedRequests.map(\.query) == ["id=1", "id=3", "id=2"])
    }
}
