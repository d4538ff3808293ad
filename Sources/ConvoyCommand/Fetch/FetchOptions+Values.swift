// Values of options, checked.
import Convoy
import Foundation

extension ScannedArguments {
    /// A whole number; nil when the option was not given.
    func number(_ option: Option, in range: ClosedRange<Int>) throws(UsageError) -> Int? {
        guard let text = value(of: option) else { return nil }
        guard let number = Int(text), range.contains(number) else {
            throw refusal(option, text, "a number from \(range.lowerBound) to \(range.upperBound)")
        }
        return number
    }

    func seconds(_ option: Option) throws(UsageError) -> Duration? {
        guard let text = value(of: option) else { return nil }
        guard let seconds = Figures.plainNumber(text), seconds > 0 else {
            throw refusal(option, text, "a number of seconds above 0, such as 30 or 2.5")
        }
        // Thirty years are for ever, and a duration holds no more than some billions of them.
        return .seconds(min(seconds, 1e9))
    }

    func bytes(_ option: Option) throws(UsageError) -> Int64? {
        guard let text = value(of: option) else { return nil }
        guard let bytes = Figures.byteCount(text), bytes > 0 else {
            throw refusal(option, text, "a number of bytes per second above 0, such as 500k, 2.5M or 1MiB")
        }
        return bytes
    }

    /// One of the option's choices.
    func choice(_ option: Option) throws(UsageError) -> String? {
        guard let text = value(of: option), case .choice(_, let choices) = option.value else { return nil }
        guard choices.contains(text) else { throw refusal(option, text, choices.joined(separator: ", ")) }
        return text
    }

    private func refusal(_ option: Option, _ text: String, _ wanted: String) -> UsageError {
        UsageError("--\(option.name) takes \(wanted), not \(text.debugDescription)", command: "fetch")
    }
}

extension Figures {
    /// A decimal number without sign and exponent; nil for anything else that `Double` reads.
    static func plainNumber(_ text: some StringProtocol) -> Double? {
        text.utf8.allSatisfy { (0x30...0x39).contains($0) || $0 == 0x2E } ? Double(text) : nil
    }

    /// Bytes as people write them: `500`, `500k`, `2.5M`, `1GB`, and with powers of 1,024 `1KiB`, `1MiB`, `1GiB`.
    ///
    /// Letters in either case. What is beyond all counting is the most that can be counted.
    static func byteCount(_ text: String) -> Int64? {
        let number = text.prefix { $0.isASCII && ($0.isNumber || $0 == ".") }
        let factor: Double? =
            switch text.dropFirst(number.count).lowercased() {
            case "", "b": 1
            case "k", "kb": 1e3
            case "m", "mb": 1e6
            case "g", "gb": 1e9
            case "ki", "kib": 0x1p10
            case "mi", "mib": 0x1p20
            case "gi", "gib": 0x1p30
            default: nil
            }
        guard let factor, let value = plainNumber(number) else { return nil }
        return Int64(min((value * factor).rounded(), 0x1p62))
    }
}

extension FileDigest {
    /// The digest that `--sha256` or `--sha512` was given; nil when neither was.
    ///
    /// - Parameter fileCount: how many files there will be; nil while nobody knows.
    init?(_ scanned: ScannedArguments, fileCount: Int?) throws(UsageError) {
        func error(_ message: String) -> UsageError { UsageError(message, command: "fetch") }
        let digest: FileDigest
        switch (scanned.value(of: .sha256), scanned.value(of: .sha512)) {
        case (nil, nil): return nil
        case (_?, _?): throw error("--sha256 and --sha512 exclude each other; give one of them")
        case (let digits?, nil): digest = .sha256(digits)
        case (nil, let digits?): digest = .sha512(digits)
        }
        let name = digest.algorithm.rawValue
        if let defect = digest.defect { throw error("--\(name): \(defect)") }
        guard fileCount == 1 else {
            throw error(
                "--\(name) is the digest of one file, and there are more URLs; put it into a list (--input), as the third column \(name):HEX"
            )
        }
        if scanned.has(.discard) {
            throw error("--\(name) and --discard exclude each other: what is not kept is not verified")
        }
        self = digest
    }
}
