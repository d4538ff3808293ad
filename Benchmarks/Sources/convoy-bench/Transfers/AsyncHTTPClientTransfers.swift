// async-http-client: its delegate for files, and its streamed body.
import AsyncHTTPClient
import Foundation

/// Transfers bodies with a client in the default configuration.
struct AsyncHTTPClientTransfers: TransferPeer {
    private let client = HTTPClient(eventLoopGroupProvider: .singleton)

    func save(_ url: URL, to file: URL) async throws {
        let delegate = try FileDownloadDelegate(path: file.path)
        let progress = try await client.execute(
            request: try HTTPClient.Request(url: url.absoluteString), delegate: delegate
        ).get()
        try check(Int(progress.head.status.code))
    }

    func read(_ url: URL, _ reader: PacedReader) async throws {
        let response = try await client.execute(HTTPClientRequest(url: url.absoluteString), timeout: .seconds(3_600))
        try check(Int(response.status.code))
        for try await piece in response.body {
            guard try await reader.take(piece.readableBytes) else { break }
        }
    }

    func end() async throws { try await client.shutdown() }

    private func check(_ statusCode: Int) throws {
        if statusCode != 200 { throw BenchmarkError("the server answered \(statusCode)") }
    }
}
