import Foundation
import Testing

@testable import Convoy

@Suite struct UserInfoTests {
    @Test func userInfoOfTheRequestIsAvailableBeforeAndAfterTheEnd() async throws {
        let manager = StubServer().manager()
        let operation = manager.operation(
            Request.stub("a").userInfo("row", 7).userInfo("gone", 1).userInfo("gone", nil))
        #expect(operation.userInfo["row"] as? Int == 7)
        #expect(operation.userInfo.count == 1)
        manager.enqueue(operation)
        try await operation.response()
        await manager.drain()
        #expect(operation.userInfo["row"] as? Int == 7)
        #expect(manager.operation(Request.stub("a")).userInfo.isEmpty)
    }

    @Test func userInfoSetOnTheOperationReplacesThatOfTheRequest() async throws {
        let manager = StubServer().manager()
        let operation = manager.operation(Request.stub("a").userInfo("row", 7))
        operation.userInfo["row"] = 8
        manager.enqueue(operation)
        try await operation.response()
        await manager.drain()
        #expect(operation.userInfo["row"] as? Int == 8)
        operation.userInfo = [:]
        #expect(operation.userInfo.isEmpty)
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
