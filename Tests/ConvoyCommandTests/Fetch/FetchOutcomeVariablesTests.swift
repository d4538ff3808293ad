import Convoy
import Foundation
import Testing

@testable import ConvoyCommand

@Suite struct FetchOutcomeVariablesTests {
    @Test(arguments: WriteOut.variables) func everyVariableHasAValue(variable: String) throws {
        let item = FetchItem(index: 0, url: try #require(URL(string: "http://a/x")), fileName: "x")
        let outcome = FetchOutcome(item: item, result: .failure(RequestError(.timedOut, "late")), attempts: [])
        #expect(outcome.value(of: variable) != nil)
    }
}
