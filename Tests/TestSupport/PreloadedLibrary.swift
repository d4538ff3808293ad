// C sources of the tests as libraries for `LD_PRELOAD`.
import Foundation

/// A C source in the folder of the same name below `Tests`, compiled once by the toolchain's clang or another
/// compiler.
package enum PreloadedLibrary: String {
    case diskRecorder = "DiskRecorder"
    case forkServer = "ForkServer"

    #if os(Linux)
        /// Whether programs load a library that `LD_PRELOAD` names.
        ///
        /// True also for a library that cannot be compiled, so that its tests fail.
        package static let isPossible = compiler != nil && (try? diskRecorder.path).map(isLoaded) != false
    #else
        package static let isPossible = false
    #endif

    private static let compiler = ["clang", "cc", "gcc"].compactMap(program).first
    private static let recorder = Result { try diskRecorder.compiled() }
    private static let server = Result { try forkServer.compiled() }

    /// The path for `LD_PRELOAD`, while this process runs.
    package var path: String {
        get throws {
            switch self {
            case .diskRecorder: try Self.recorder.get()
            case .forkServer: try Self.server.get()
            }
        }
    }

    /// Whether the dynamic linker loads a library.
    ///
    /// If the linker cannot load a library, it prints an error and starts the program without the library.
    private static func isLoaded(_ library: String) -> Bool {
        let (program, errors) = (Process(), Pipe())
        (program.executableURL, program.environment) = (URL(filePath: "/bin/true"), ["LD_PRELOAD": library])
        program.standardError = errors
        guard (try? program.run()) != nil else { return false }
        defer { program.waitUntilExit() }
        return errors.fileHandleForReading.readDataToEndOfFile().isEmpty
    }

    private func compiled() throws -> String {
        // A file system in memory may be mounted with `noexec`.
        let directory = try TemporaryDirectory.besideProducts()
        let library = directory.file("library.so")
        let source = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
            .appending(path: "\(rawValue)/\(rawValue).c")
        // `.ci/threads` copies only some of the tests, so the source may be missing.
        guard FileManager.default.fileExists(atPath: source.path) else { throw CocoaError(.fileNoSuchFile) }
        let compiling = Process()
        compiling.executableURL = Self.compiler
        // With `initfirst`, the fork server's constructor runs before those of other libraries.
        let options = self == .forkServer ? ["-Wl,-z,initfirst"] : []
        compiling.arguments =
            ["-shared", "-fPIC", "-O1", "-Wall", "-Wextra", "-Werror"] + options
            + ["-o", library.path, source.path, "-ldl", "-pthread"]
        try compiling.run()
        compiling.waitUntilExit()
        guard compiling.terminationStatus == 0 else { throw CocoaError(.executableLoad) }
        // The directory is removed now. The open file stays until this process ends.
        let file = open(library.path, O_RDONLY | O_CLOEXEC)
        guard file >= 0 else { throw CocoaError(.fileReadUnknown) }
        return "/proc/\(getpid())/fd/\(file)"
    }

    private static func program(named name: String) -> URL? {
        (ProcessInfo.processInfo.environment["PATH"] ?? "").split(separator: ":")
            .map { URL(filePath: String($0)).appending(path: name) }
            .first { FileManager.default.isExecutableFile(atPath: $0.path) }
    }
}
