import Convoy
import Foundation
import Testing

@testable import ConvoyCommand

@Suite struct RequestEndingTests {
    @Test(arguments: WriteOut.variables) func everyVariableHasAValue(variable: String) throws {
        let item = FetchItem(index: 0, url: try #require(URL(string: "http://a/x")), fileName: "x")
        let result = Result<Response<Data>, RequestError>.failure(RequestError(.timedOut, "late"))
        #expect(RequestEnding(item, result, hiding: []).value(of: variable) != nil)
    }
}
