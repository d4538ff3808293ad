// The length of a body according to its header.
#if canImport(CLibcurl)
    import Foundation

    /// The body length according to the header fields, read line by line.
    struct DeclaredLength {
        var length: Int64?
        var defect: CurlHeaderParser.Defect?
        var isCoded = false
        var hasContentCoding = false
        var locationCount = 0

        /// Reads a field; false if it is not one of the four fields that this type evaluates.
        mutating func note(_ name: UnsafeRawBufferPointer, _ value: UnsafeRawBufferPointer) -> Bool {
            switch name.count {
            case 14 where Self.equals(name, "content-length"): read(value)
            case 17 where Self.equals(name, "transfer-encoding"): isCoded = true
            case 16 where Self.equals(name, "content-encoding"): hasContentCoding = true
            case 8 where Self.equals(name, "location"): locationCount += 1
            default: return false
            }
            return true
        }

        private static func equals(_ name: UnsafeRawBufferPointer, _ lowercased: StaticString) -> Bool {
            // Setting the bit lowercases letters. It makes no other byte of a token equal to a byte of these names.
            for index in 0..<name.count where name[index] | 0x20 != lowercased.utf8Start[index] { return false }
            return true
        }

        /// Several equal lengths count as one (RFC 9110, section 8.6).
        private mutating func read(_ value: UnsafeRawBufferPointer) {
            guard value.contains(0x2c) else { return add(value[...]) }
            for member in value.split(separator: 0x2c, omittingEmptySubsequences: false) { add(member) }
        }

        private mutating func add(_ member: Slice<UnsafeRawBufferPointer>) {
            guard let number = Self.number(member) else {
                defect = defect ?? CurlHeaderParser.Defect(reason: "the Content-Length is invalid")
                return
            }
            if let length, length != number {
                defect =
                    defect ?? CurlHeaderParser.Defect(reason: "the response has two lengths, \(length) and \(number)")
            }
            length = number
        }

        /// Parses digits, perhaps with surrounding blanks; nil for anything else, and on overflow.
        private static func number(_ text: Slice<UnsafeRawBufferPointer>) -> Int64? {
            let digits = text.drop(while: \.isBlank).prefix { (0x30...0x39).contains($0) }
            guard !digits.isEmpty, text[digits.endIndex...].allSatisfy(\.isBlank) else { return nil }
            var value: Int64 = 0
            for digit in digits {
                let (product, overflows) = value.multipliedReportingOverflow(by: 10)
                let (sum, carries) = product.addingReportingOverflow(Int64(digit - 0x30))
                if overflows || carries { return nil }
                value = sum
            }
            return value
        }
    }
#endif
