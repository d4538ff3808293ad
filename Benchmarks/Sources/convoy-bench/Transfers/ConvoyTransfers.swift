// Convoy: downloads to a file and in chunks, and uploads from a file.
import Convoy
import Foundation

/// Transfers bodies with a separate manager, and the transport of the case.
struct ConvoyTransfers: TransferPeer {
    private let manager: RequestManager

    init(_ spec: CaseSpec) throws {
        manager = RequestManager(configuration: .init(transport: try spec.transport.choice(spec.connectionOptions)))
    }

    func save(_ url: URL, to file: URL) async throws {
        try await manager.send(Request<Data>.get(url).saved(to: file))
    }

    func read(_ url: URL, _ reader: PacedReader) async throws {
        for try await chunk in manager.chunks(of: Request<Data>.get(url)) {
            guard try await reader.take(chunk.count) else { break }
        }
    }

    func send(_ file: URL, to url: URL) async throws {
        let response = try await manager.send(Request<Data>.put(url).body(fromFile: file))
        let transfer = response.transfer
        guard transfer.upload.completedBytes == transfer.upload.totalBytes else {
            throw BenchmarkError(
                "the server answered after \(transfer.upload.completedBytes) of \(transfer.upload.totalBytes ?? 0) bytes"
            )
        }
    }
}
