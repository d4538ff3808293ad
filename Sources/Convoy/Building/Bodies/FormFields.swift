// The fields of a form, as browsers write them (WHATWG URL, section 5.2).
import Foundation

enum FormFields {
    /// The fields as `application/x-www-form-urlencoded`, in UTF-8.
    static func encoded(_ items: [URLQueryItem]) -> Data {
        var bytes = Data()
        for item in items {
            if !bytes.isEmpty { bytes.append(UInt8(ascii: "&")) }
            append(item.name, to: &bytes)
            bytes.append(UInt8(ascii: "="))
            append(item.value ?? "", to: &bytes)
        }
        return bytes
    }

    private static func append(_ text: String, to bytes: inout Data) {
        for byte in text.utf8 {
            switch byte {
            case UInt8(ascii: " "): bytes.append(UInt8(ascii: "+"))
            case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
                UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "*"), UInt8(ascii: "-"), UInt8(ascii: "."),
                UInt8(ascii: "_"):
                bytes.append(byte)
            default:
                bytes.append(contentsOf: [UInt8(ascii: "%"), hexDigits[Int(byte >> 4)], hexDigits[Int(byte & 15)]])
            }
        }
    }

    private static let hexDigits = Array("0123456789ABCDEF".utf8)
}
