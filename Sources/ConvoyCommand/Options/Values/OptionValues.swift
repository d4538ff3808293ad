import Foundation

enum OptionValues {
    static func number(_ text: String, in range: ClosedRange<Int>) throws(UsageError) -> Int {
        guard let number = Int(text), range.contains(number) else {
            throw refusal(text, "a number from \(range.lowerBound) to \(range.upperBound)")
        }
        return number
    }

    static func seconds(_ text: String) throws(UsageError) -> Duration {
        guard let seconds = Figures.plainNumber(text), seconds > 0 else {
            throw refusal(text, "a number of seconds above 0, such as 30 or 2.5")
        }
        // The duration is limited to 10^9 seconds, almost 32 years, because `Duration` can overflow.
        return .seconds(min(seconds, 1e9))
    }

    static func date(_ text: String) throws(UsageError) -> Date {
        if let date = calendarDate(text) { return date }
        guard let seconds = Figures.plainNumber(text), seconds > 0, seconds <= 1e9 else {
            let wanted = "a date, such as 2027-01-31T08:00:00Z, or seconds from now, at most 1000000000"
            throw refusal(text, wanted)
        }
        return Date(timeIntervalSinceNow: seconds)
    }

    // Foundation parses 30 February as 2 March. So the date is formatted again, and is valid if the text is the same.
    private static func calendarDate(_ text: String) -> Date? {
        let local = "\(text.prefix(19))Z"
        guard text.dropFirst(19).wholeMatch(of: #/Z|[+-]\d\d:?\d\d/#) != nil,
            let date = try? Date(text, strategy: .iso8601),
            let sameInUTC = try? Date(local, strategy: .iso8601), sameInUTC.formatted(.iso8601) == local,
            abs(date.timeIntervalSince(sameInUTC)) <= 14 * 3_600
        else { return nil }
        return date
    }

    static func bytes(_ text: String, _ unit: String = "bytes per second") throws(UsageError) -> Int64 {
        guard let bytes = Figures.byteCount(text), bytes > 0 else {
            throw refusal(text, "a number of \(unit) above 0, such as 500k, 2.5M or 1MiB")
        }
        return bytes
    }

    static func choice(_ text: String, among choices: [String]) throws(UsageError) -> String {
        guard choices.contains(text) else {
            let near = choices.nearest(to: text).map { "; did you mean \($0)?" } ?? ""
            let most = choices.dropLast().joined(separator: ", ")
            throw UsageError("takes \(most) or \(choices.last ?? ""), not \(text.debugDescription)\(near)")
        }
        return text
    }

    static func readableFile(_ path: String) throws(UsageError) -> String {
        let problem = FileType.problem(with: path, isDirectory: false)
        guard problem == 0 else { throw UsageError("cannot read \(path): \(String(cString: strerror(problem)))") }
        return path
    }

    // Larger content than `limitBytes`, a multiple of 1 MiB, is an error. At most one byte more is read from a pipe or
    // device, because a device may have no end.
    static func content(of path: String, limitBytes: Int? = nil) throws(UsageError) -> Data {
        let content: Data
        do {
            if path == "-" {
                content = try bytes(of: FileHandle.standardInput, limitBytes)
            } else {
                let file = URL(filePath: try readableFile(path))
                // `Data` reads only regular files. A pipe is read by a handle, because a shell passes `<(…)` as a pipe.
                content =
                    FileType.of(path) == S_IFREG
                    ? try Data(contentsOf: file, options: .mappedIfSafe)
                    : try bytes(of: FileHandle(forReadingFrom: file), limitBytes)
            }
        } catch let error as UsageError {
            throw error
        } catch {
            throw UsageError(
                "cannot read \(path): \((error as? POSIXError)?.localizedDescription ?? "it could not be read")")
        }
        guard let limitBytes, content.count > limitBytes else { return content }
        throw UsageError("cannot read \(path): it is larger than \(limitBytes >> 20) MiB")
    }

    private static func bytes(of file: FileHandle, _ limitBytes: Int?) throws -> Data {
        guard let limitBytes else { return try file.readToEnd() ?? Data() }
        var content = Data()
        while content.count <= limitBytes {
            let wanted = min(1 << 16, limitBytes + 1 - content.count)
            guard let block = try file.read(upToCount: wanted), !block.isEmpty else { break }
            content += block
        }
        return content
    }

    // Reads byte by byte, so that the rest is left for other readers, such as a list.
    static func firstLineOfStandardInput() -> String? {
        var (bytes, byte) = ([UInt8](), UInt8(0))
        while bytes.count < 1 << 16, read(STDIN_FILENO, &byte, 1) == 1 {
            guard byte != UInt8(ascii: "\n") else {
                if bytes.last == UInt8(ascii: "\r") { bytes.removeLast() }
                return String(decoding: bytes, as: UTF8.self)
            }
            bytes.append(byte)
        }
        return bytes.isEmpty ? nil : String(decoding: bytes, as: UTF8.self)
    }

    static func refusal(_ text: String, _ wanted: String) -> UsageError {
        UsageError("takes \(wanted), not \(text.debugDescription)")
    }
}

extension Figures {
    /// Nil for other texts that `Double` accepts, such as `1e3`.
    static func plainNumber(_ text: some StringProtocol) -> Double? {
        text.utf8.allSatisfy { (0x30...0x39).contains($0) || $0 == 0x2E } ? Double(text) : nil
    }

    // Letters may have either case. The result is at most 2^62.
    static func byteCount(_ text: String) -> Int64? {
        let number = text.prefix { $0.isASCII && ($0.isNumber || $0 == ".") }
        let factors = ["": 1, "k": 1e3, "m": 1e6, "g": 1e9, "ki": 0x1p10, "mi": 0x1p20, "gi": 0x1p30]
        let unit = text.dropFirst(number.count).lowercased()
        guard let factor = factors[unit.hasSuffix("b") ? String(unit.dropLast()) : unit],
            let value = plainNumber(number)
        else { return nil }
        return Int64(min((value * factor).rounded(), 0x1p62))
    }
}

extension [String] {
    func nearest(to typed: some StringProtocol) -> String? {
        let typed = typed.lowercased()
        guard typed.count > 1, typed.count < 40 else { return nil }
        let starting = filter { $0.hasPrefix(typed) }
        if starting.count == 1 { return starting[0] }
        let limit = typed.count < 4 ? 1 : typed.count < 8 ? 2 : 3
        let measured = map { (word: $0, distance: $0.distance(to: typed)) }
        return measured.filter { $0.distance <= limit }.min { $0.distance < $1.distance }?.word ?? starting.first
    }
}

extension String {
    // An edit inserts, deletes or replaces a letter, or swaps two neighbouring letters.
    fileprivate func distance(to other: String) -> Int {
        let (left, right) = (Array(self), Array(other))
        var (before, last) = ([Int](), Array(0...right.count))
        for (row, letter) in left.enumerated() {
            var line = [row + 1]
            for (column, otherLetter) in right.enumerated() {
                let replaced = last[column] + (letter == otherLetter ? 0 : 1)
                var best = Swift.min(replaced, last[column + 1] + 1, line[column] + 1)
                let isSwap =
                    row > 0 && column > 0 && letter == right[column - 1] && left[row - 1] == otherLetter
                if isSwap { best = Swift.min(best, before[column - 1] + 1) }
                line.append(best)
            }
            (before, last) = (last, line)
        }
        return last.last ?? left.count
    }
}
