import Foundation
import Testing

@testable import Convoy

@Suite struct UserInfoTests {
    @Test func userInfoOfTheRequestIsThereBeforeAndAfterTheEndAndReplaceable() async throws {
        let manager = StubServer().manager()
        let request = Request.stub("a").userInfo("row", 7).userInfo("gone", 1).userInfo("gone", nil)
        let (operation, other) = (manager.operation(request), manager.operation(request))
        #expect(operation.userInfo["row"] as? Int == 7 && operation.userInfo.count == 1)
        other.userInfo["row"] = 8
        manager.enqueue(operation, other)
        await manager.drain()
        #expect(operation.userInfo["row"] as? Int == 7 && other.userInfo["row"] as? Int == 8)
        other.userInfo = [:]
        #expect(other.userInfo.isEmpty && manager.operation(Request.stub("a")).userInfo.isEmpty)
    }

    @Test func aLinkHasThatOfTheRequestThatWasBuilt() async throws {
        let manager = StubServer().manager()
        let first = manager.operation(.stub("a"))
        let second = manager.operation(after: first) { _ in Request.stub("b").userInfo("row", 9) }
        #expect(second.userInfo.isEmpty)
        manager.enqueue(first, second)
        try await second.response()
        await manager.drain()
        #expect(second.userInfo["row"] as? Int == 9)
    }
}
