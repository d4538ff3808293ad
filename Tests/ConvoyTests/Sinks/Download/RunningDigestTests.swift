// Tests digests of files, with the system's code and with Convoy's.
import Foundation
import Testing

@testable import Convoy

/// A hash that fails at its end.
struct FailingHash: FileHash {
    func update(_ bytes: UnsafeRawBufferPointer) {}
    func finish() throws(HashFailure) -> [UInt8] { throw HashFailure() }
}

@Suite struct RunningDigestTests {
    private let message = FileVersion.seeded(3, byteCount: 300)

    /// The code that computes a digest.
    enum Code: CaseIterable {
        case system
        case own

        func makeDigest(_ algorithm: FileDigest.Algorithm) -> RunningDigest {
            switch self {
            case .system: RunningDigest(algorithm)
            case .own: RunningDigest(algorithm, by: nil)
            }
        }
    }

    /// The digest by Convoy's own code, which is tested with the vectors of the standards.
    private func whole(_ algorithm: FileDigest.Algorithm, _ message: Data) -> FileDigest {
        switch algorithm {
        case .sha256: .sha256(Data(SHA256.digest(of: message)))
        case .sha512: .sha512(Data(SHA512.digest(of: message)))
        }
    }

    @Test(arguments: FileDigest.Algorithm.allCases, Code.allCases)
    func officialVectorsAreMet(algorithm: FileDigest.Algorithm, code: Code) throws {
        for (message, expected) in try #require(HashCase.all.first { $0.name == algorithm.name }).digests {
            let digest = code.makeDigest(algorithm)
            digest.update(Data(message.utf8))
            #expect(try digest.finish(of: "f").hexadecimal == expected, "\(message.utf8.count) bytes")
        }
    }

    @Test(arguments: FileDigest.Algorithm.allCases, Code.allCases)
    func everySplitGivesTheSameDigestAndUpdatesMayFollow(algorithm: FileDigest.Algorithm, code: Code) throws {
        for cut in 0...message.count {
            let digest = code.makeDigest(algorithm)
            digest.update(message.prefix(cut))
            #expect(try digest.finish(of: "f") == whole(algorithm, message.prefix(cut)), "\(cut) bytes")
            #expect(try digest.finish(of: "f") == whole(algorithm, message.prefix(cut)), "\(cut) bytes")
            digest.update(message.dropFirst(cut))
            #expect(try digest.finish(of: "f") == whole(algorithm, message), "cut at \(cut)")
        }
    }

    /// The lengths and the pieces are random.
    @Test(arguments: FileDigest.Algorithm.allCases, 1...12 as ClosedRange<UInt64>)
    func systemAndOwnCodeAgree(algorithm: FileDigest.Algorithm, seed: UInt64) throws {
        var random = SeededGenerator(seed: seed)
        let message = FileVersion.seeded(seed, byteCount: Int.random(in: 0...200_000, using: &random))
        let digests = Code.allCases.map { $0.makeDigest(algorithm) }
        for digest in digests {
            var rest = message
            while !rest.isEmpty {
                let most = [3, 200, 70_000][Int.random(in: 0..<3, using: &random)]
                let count = min(rest.count, Int.random(in: 0...most, using: &random))
                digest.update(rest.prefix(count))
                rest = rest.dropFirst(count)
            }
            #expect(digest.byteCount == message.count)
        }
        #expect(try digests[0].finish(of: "f") == digests[1].finish(of: "f"))
    }

    @Test(arguments: FileDigest.Algorithm.allCases, Code.allCases)
    func bytesAreCounted(algorithm: FileDigest.Algorithm, code: Code) {
        let digest = code.makeDigest(algorithm)
        #expect(digest.algorithm == algorithm)
        #expect(digest.byteCount == 0)
        digest.update(Data())
        #expect(digest.byteCount == 0)
        for count in 1...300 {
            digest.update(Data([7]))
            #expect(digest.byteCount == count)
        }
    }

    @Test(arguments: FileDigest.Algorithm.allCases)
    func digestsOfSeveralThreadsAreTheirOwn(algorithm: FileDigest.Algorithm) {
        let found = Locked([FileDigest?](repeating: nil, count: 16))
        DispatchQueue.concurrentPerform(iterations: 16) { index in
            let digest = RunningDigest(algorithm)
            for byte in message.prefix(200 + index) { digest.update(Data([byte])) }
            let result = try? digest.finish(of: "f")
            found.withLock { $0[index] = result }
        }
        #expect(found.withLock { $0 } == (0..<16).map { whole(algorithm, message.prefix(200 + $0)) })
    }

    @Test(arguments: FileDigest.Algorithm.allCases)
    func aFailureGivesAdvice(algorithm: FileDigest.Algorithm) {
        let digest = RunningDigest(algorithm, by: FailingHash())
        digest.update(message)
        do throws(RequestError) {
            _ = try digest.finish(of: "/d/file")
            Issue.record("there is a digest")
        } catch {
            #expect(error.code == .destinationUnwritable)
            #expect(error.isRetryable)
            for word in [algorithm.name, "/d/file", "libcrypto", "try again"] { #expect(error.message.contains(word)) }
        }
    }

    #if canImport(CLibcurl)
        private static let hasLibcrypto = ["4", "3", "1.1"].contains { dlopen("libcrypto.so.\($0)", RTLD_NOW) != nil }

        @Test(.enabled(if: hasLibcrypto)) func libcryptoIsUsedWhereItIs() {
            #expect(SystemHash.make(.sha256) is LibcryptoHash)
            #expect(SystemHash.make(.sha512) is LibcryptoHash)
        }
    #endif
}
