import Foundation
import Testing

@testable import Convoy

@Suite struct DownloadAnswerTests {
    private static let tag = Validator.entityTag("\"v1\"")

    private func answer(
        _ status: Int, _ range: String?, expecting byteCount: Int64? = nil, tag: String = "\"v1\"",
        continuing offset: Int64? = 100
    ) -> DownloadAnswer {
        var fields: HeaderFields = ["ETag": tag]
        fields["Content-Range"] = range
        let head = ResponseHead(statusCode: status, headerFields: fields, expectedBytes: byteCount)
        let point = offset.map { ResumePoint(byteCount: $0, validator: Self.tag, totalBytes: 300, coding: nil) }
        return DownloadAnswer(head, continuing: point, asksForRange: false, isRefused: false)
    }

    /// A 200 with a `Content-Range` is a range, so its bytes are not the complete file.
    @Test(arguments: [200, 206]) func aRequestedRangeContinuesTheFile(status: Int) {
        #expect(answer(status, "bytes 100-299/300", expecting: 200) == .body(from: 100, totalBytes: 300))
        #expect(answer(status, "bytes 100-299/*", expecting: 200) == .body(from: 100, totalBytes: 300))
    }

    @Test(arguments: [200, 206], ["bytes 99-299/300", "bytes 200-299/300", "bytes 100-399/400", "bytes 0-99/300"])
    func otherRangeIsALie(status: Int, range: String) {
        #expect(answer(status, range).canStartOver)
        #expect(answer(status, "bytes 100-299/300", tag: "\"v2\"").canStartOver)
        #expect(answer(status, "bytes 100-299/300", expecting: 300).canStartOver)
    }

    @Test(arguments: [nil, "bytes 0-299/300", "bytes 0-299/*", "bytes */300", "lines 100-299/300", "nonsense"])
    func aResponseWithoutAMatchingRangeIsTheCompleteFile(range: String?) {
        #expect(answer(200, range, expecting: 300) == .body(from: 0, totalBytes: 300))
    }

    /// Without a requested range, `Content-Range` has no meaning in a 200 (RFC 9110, section 14.4).
    @Test func aRequestedCompleteFileIsAccepted() {
        #expect(answer(200, "bytes 100-299/300", expecting: 200, continuing: nil) == .body(from: 0, totalBytes: 200))
    }
}
