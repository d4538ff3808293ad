// Leaves secrets out of the scripts of a collection.
import Convoy

extension ImportedRequest {
    /// Removes the lines of the handler that contain a secret, and hides secrets in notes about omitted statements.
    mutating func leaveOutSecretTexts() {
        notes = notes.map { note in
            ["omitted from its script: ", "omitted from its pre-request script: "].contains(where: note.hasPrefix)
                ? note.withoutSecretTexts : note
        }
        let hidden = handler.map(\.withoutSecretTexts)
        let pairs = zip(handler, hidden)
        guard pairs.contains(where: { $0 != $1 }) else { return }
        notes += pairs.filter { $0 != $1 }.map {
            "omitted from its script, because it contains a secret: \($1.trimmed)"
        }
        handler = pairs.filter { $0 == $1 }.map(\.0)
        let text = handler.joined(separator: "\n")
        guard (try? ScriptReader.read(text, at: Position(line: 1, column: 1))) == nil else { return }
        handler = []
        notes.append("omitted: the rest of its script, which needs these statements")
    }
}

extension String {
    /// A script in which each text and number after a secret name is replaced with `…`.
    ///
    /// In `set("password", "x")`, only the x is replaced.
    fileprivate var withoutSecretTexts: String {
        let bytes = Array(utf8)
        var (shown, start, index) = ("", 0, 0)
        // `isSecret`: a secret name precedes. `isByText`: this name is a string. `isFound`: a value after the name was
        // replaced. `mark`: the last byte that is not blank.
        var (isSecret, isByText, isFound, mark) = (false, false, false, UInt8(0))
        func hide(_ range: Range<Int>) {
            shown += String(decoding: bytes[start..<range.lowerBound], as: UTF8.self) + "…"
            (start, isFound) = (range.upperBound, true)
        }
        func noteName(_ range: Range<Int>, isText: Bool) {
            guard range.count <= 100, case let name = String(decoding: bytes[range], as: UTF8.self),
                // The words `code`, `key` and `keys` alone are not secret: a status is a code, and a member of an
                // object has a key.
                isText || !["code", "key", "keys"].contains(name),
                name.contains(" ")
                    ? SecretWords.standard.isSecret(sentence: name) : SecretWords.standard.isSecret(name)
            else { return }
            (isSecret, isByText, isFound) = (true, isText, false)
        }
        while index < bytes.count {
            let (byte, first) = (bytes[index], index)
            index += 1
            switch byte {
            case _ where "'\"`".utf8.contains(byte):
                while index < bytes.count, bytes[index] != byte { index += bytes[index] == UInt8(ascii: "\\") ? 2 : 1 }
                index = min(index, bytes.count)
                let range = first + 1..<index
                if isSecret, !range.isEmpty { hide(range) } else { noteName(range, isText: true) }
                index += 1
            case _ where byte.isWordByte:
                index = bytes[first...].firstIndex { !$0.isWordByte } ?? bytes.count
                let isNumber = (0x30...0x39).contains(byte)
                if isSecret, isNumber, ",:".utf8.contains(mark) { hide(first..<index) }
                if !isSecret, !isNumber { noteName(first..<index, isText: false) }
            case _ where ";{}\n".utf8.contains(byte): isSecret = false
            case UInt8(ascii: ")") where isByText: isSecret = false
            case UInt8(ascii: ",") where isFound: isSecret = false
            default: break
            }
            if !byte.isBlank { mark = byte }
        }
        return shown + String(decoding: bytes[min(start, bytes.count)...], as: UTF8.self)
    }
}
