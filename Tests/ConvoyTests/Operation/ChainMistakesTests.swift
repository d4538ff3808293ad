import Foundation
import Testing

#if os(Linux)
    /// Tests the compiler's errors for mistakes in chains: each names the mistake, and the compiler does not crash.
    @Suite(.timeLimit(.minutes(5))) struct ChainMistakesTests {
        private static let mistakes: [(code: String, error: String)] = [
            (#"after: login, cart) { a in Request<Data>.get("/") }"#, "expects 2 arguments, but 1 was"),
            (#"after: login, cart) { a, b, c in Request<Data>.get("/") }"#, "expects 2 arguments, but 3"),
            (#"after: login, cart, login) { a, b in Request<Data>.get("/") }"#, "expects 3 arguments"),
            (#"after: login) { a, b in Request<Data>.get("/") }"#, "expects 1 argument, but 2"),
            (#"after: login) { Request<Data>.get("/\($0.valeu.id)") }"#, "has no member 'valeu'"),
            (#"after: login) { Request<Data>.get("/\($0.id)") }"#, "has no member 'id'"),
            (#"after: login, cart) { a, b in Request<Data>.get("/\(a.value.idd)") }"#, "no member 'idd'"),
            (#"after: login, cart) { a, b in Request<Data>.get("/\(idd)") }"#, "cannot find 'idd'"),
            (#"after: login) { Request<Data>.get("/").header("X", $0.value.id) }"#, "'Int' to expected"),
            (#"after: login, cart.optional) { a, b in Request<Data>.get("/\(b.value)") }"#, "unwrapped"),
            (#"after: login.value) { Request<Data>.get("/\($0)") }"#, "has no member 'value'"),
            (
                #"after: login) { _ in try await manager.send(Request<Data>.get("/")) }"#,
                "expecting synchronous function type"
            ),
        ]

        private static let beginning = """
            import Convoy
            import Foundation
            struct User: Decodable, Sendable { let id: Int }
            let manager = RequestManager()
            let login = manager.operation(Request<User>.get("/login"))
            let cart = manager.operation(Request<String>.get("/cart"))

            """

        /// The directory of the built modules and the C module that they need.
        private static let products: URL? = {
            var directory = URL(filePath: CommandLine.arguments[0]).absoluteURL
            while directory.path() != "/" {
                directory.deleteLastPathComponent()
                let module = directory.appending(path: "Modules/Convoy.swiftmodule")
                if FileManager.default.fileExists(atPath: module.path()) { return directory }
            }
            return nil
        }()

        @Test(.enabled(if: products != nil)) func theCompilerNamesTheSlip() throws {
            let products = try #require(Self.products)
            let file = FileManager.default.temporaryDirectory.appending(path: "mistakes-\(UUID()).swift")
            defer { try? FileManager.default.removeItem(at: file) }
            let functions = Self.mistakes.enumerated().map {
                "func f\($0.offset)() { _ = manager.operation(\($0.element.code) }"
            }
            try Data((Self.beginning + functions.joined(separator: "\n")).utf8).write(to: file)

            let (process, pipe) = (Process(), Pipe())
            process.executableURL = URL(filePath: "/usr/bin/env")
            let map = products.appending(path: "CLibcurl.build/module.modulemap").path()
            process.arguments = [
                "swiftc", "-typecheck", "-swift-version", "6", "-diagnostic-style", "llvm",
                "-I", products.appending(path: "Modules").path(), "-Xcc", "-fmodule-map-file=\(map)", file.path(),
            ]
            (process.standardOutput, process.standardError) = (FileHandle.nullDevice, pipe)
            try process.run()
            let text = String(decoding: try pipe.fileHandleForReading.readToEnd() ?? Data(), as: UTF8.self)
            process.waitUntilExit()
            #expect(process.terminationReason == .exit && process.terminationStatus == 1, "\(text.suffix(2_000))")
            let first = Self.beginning.split(separator: "\n", omittingEmptySubsequences: false).count
            for (number, mistake) in Self.mistakes.enumerated() {
                let errors = text.split(separator: "\n").filter { $0.contains(".swift:\(first + number):") }
                #expect(errors.contains { $0.contains(mistake.error) }, "\(mistake.code): \(errors)")
            }
        }
    }
#endif
