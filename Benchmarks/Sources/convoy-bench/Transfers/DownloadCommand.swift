// The cost of downloading a large body.
import ArgumentParser
import Convoy
import Foundation

/// `download`: one body, into a file or to a slow reader.
struct DownloadCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "download", abstract: "Bytes a second into a file, CPU per byte, peak memory.",
        discussion: """
            Subjects: convoy (saved(to:)), urlsession (a delegate that writes to a FileHandle), async-http-client \
            (FileDownloadDelegate), curl and aria2c (one connection, no allocation in advance) where installed; the two \
            are timed from their start to their end. With --consumer slow the first three hand the body to a reader that \
            takes --rate bytes a second and leaves after --seconds, and to one that takes what comes: what counts is that \
            both need the same memory. Bare URLSession has the delegate's thread wait.
            """)

    @Option(help: "What takes the body: disk or slow.")
    var consumer = Consumer.disk

    @Option(help: "Bytes a second that the slow consumer takes.")
    var rate = 1_000_000

    @Option(help: "After how many seconds a consumer that reads leaves.")
    var seconds = 10

    @Option(help: "Bytes of the body; by default what --url announces, or 1 GiB without --url.")
    var size: Int?

    @OptionGroup var transfer: TransferOptions
    @OptionGroup var common: CommonOptions

    private var possible: [TransferSubject] { consumer == .disk ? TransferSubject.saving : TransferSubject.reading }

    func validate() throws {
        if rate < 1 || seconds < 1 || (size ?? 1) < 1 {
            throw ValidationError("--rate, --seconds and --size must be positive.")
        }
        if consumer == .fast { throw ValidationError("--consumer is disk or slow; a fast one is measured beside it.") }
        if consumer == .slow, seconds >= common.limitSeconds {
            throw ValidationError("--seconds must be less than --limit-seconds.")
        }
    }

    func run() async throws {
        let (subjects, note) = try transfer.installed(among: possible)
        let arguments = ["--generated", "--body-bytes", "\(size ?? 1 << 30)"]
        try await transfer.server.withServer(arguments) { url, server in
            let bodyBytes = try await expectedBytes(of: url)
            let results = try await transfer.withDirectory { directory in
                Runner(options: common).run(specs(subjects, url, bodyBytes, directory))
            }
            let what = consumer == .disk ? "saved" : "read at \(rate.figure) bytes/s for \(seconds) s, and as it comes"
            try TransferReport(results, server: server, note: note).print(
                "A body of \(bodyBytes.figure) bytes \(what)", common: common)
        }
    }

    private func specs(
        _ subjects: [TransferSubject], _ url: URL, _ bodyBytes: Int, _ directory: URL
    ) -> [CaseSpec] {
        subjects.flatMap { subject in
            (consumer == .disk ? [Consumer.disk] : [.slow, .fast]).map { consumer in
                var spec = CaseSpec(benchmark: .download, subject: subject.rawValue, count: 1)
                (spec.url, spec.bodyBytes, spec.directory) = (url, bodyBytes, directory.path)
                (spec.transport, spec.limitSeconds) = (transfer.transport, common.limitSeconds)
                (spec.consumer, spec.bytesPerSecond, spec.seconds) = (consumer, rate, seconds)
                return spec
            }
        }
    }

    private func expectedBytes(of url: URL) async throws -> Int {
        if let size { return size }
        let head = try await RequestManager().send(Request.head(url)).head
        guard let bytes = head.headerFields["Content-Length"].flatMap({ Int($0) }), bytes > 0 else {
            throw BenchmarkError("the server does not announce the length of \(url.absoluteString): say --size")
        }
        return bytes
    }
}
