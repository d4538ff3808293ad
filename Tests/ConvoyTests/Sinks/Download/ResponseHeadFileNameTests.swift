import Foundation
import Testing

@testable import Convoy

@Suite struct ResponseHeadFileNameTests {
    @Test(arguments: [
        (#"attachment; filename="report 7.pdf""#, "report 7.pdf"),
        ("attachment; filename=\"../../etc/.pass\u{7}wd\"", "passwd"),
        ("attachment; filename=a.txt; filename*=UTF-8''%e2%82%ac%2Frates.txt", "rates.txt"),
        (#"attachment; filename="..""#, "download"), ("inline", nil),
    ])
    func theProposedNameIsSafe(field: String, expected: String?) {
        let head = ResponseHead(statusCode: 200, headerFields: ["Content-Disposition": field])
        #expect(head.proposedFileName == expected)
    }

    @Test func noFieldProposesNoName() {
        #expect(ResponseHead(statusCode: 200, url: URL(string: "http://a/b.txt")).proposedFileName == nil)
    }
}
