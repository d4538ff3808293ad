// The cost of uploading a large body.
import ArgumentParser
import Foundation

/// `upload`: one file, with PUT.
struct UploadCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "upload", abstract: "Bytes a second from a file, CPU per byte, peak memory.",
        discussion: """
            Subjects: convoy (body(fromFile:)), urlsession (uploadTask(with:fromFile:)), curl (-T) where installed, timed \
            from its start to its end. The file is sparse: reading it costs no disk.
            """)

    @Option(help: "Bytes of the file.")
    var size = 1 << 30

    @OptionGroup var transfer: TransferOptions
    @OptionGroup var common: CommonOptions

    func validate() throws {
        if size < 1 { throw ValidationError("--size must be positive.") }
    }

    func run() async throws {
        let (subjects, note) = try transfer.installed(among: TransferSubject.sending)
        try await transfer.server.withServer(["--body-bytes", "0"]) { url, server in
            let results = try await transfer.withDirectory { directory in
                let file = try makeFile(in: directory)
                return Runner(options: common).run(specs(subjects, url, file))
            }
            try TransferReport(results, server: server, note: note).print(
                "A file of \(size.figure) bytes sent with PUT", common: common)
        }
    }

    private func specs(_ subjects: [TransferSubject], _ url: URL, _ file: URL) -> [CaseSpec] {
        subjects.map { subject in
            var spec = CaseSpec(benchmark: .upload, subject: subject.rawValue, count: 1)
            (spec.url, spec.bodyBytes, spec.file) = (url, size, file.path)
            (spec.transport, spec.limitSeconds) = (transfer.transport, common.limitSeconds)
            return spec
        }
    }

    private func makeFile(in directory: URL) throws -> URL {
        let file = directory.appendingPathComponent("upload")
        guard FileManager.default.createFile(atPath: file.path, contents: nil) else {
            throw BenchmarkError("the file \(file.path) could not be made")
        }
        let handle = try FileHandle(forWritingTo: file)
        try handle.truncate(atOffset: UInt64(size))
        try handle.close()
        return file
    }
}
