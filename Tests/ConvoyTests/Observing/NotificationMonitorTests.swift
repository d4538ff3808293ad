import Foundation
import Testing

@testable import Convoy

@Suite struct NotificationMonitorTests {
    @Test func startSuspensionAndEndAreNotificationsWithTheOperationAsObject() async throws {
        let center = NotificationCenter()
        let log = EventLog<String>()
        let (first, second) = (EventLog<RequestError?>(), EventLog<ObjectIdentifier?>())
        let names: [(Notification.Name, String)] = [
            (.requestOperationDidStart, "start"), (.requestOperationDidFinish, "finish"),
            (.requestOperationDidSuspend, "suspend"), (.requestOperationDidResume, "resume"),
        ]
        let observers = names.map { name, word in
            center.addObserver(forName: name, object: nil, queue: nil) { notification in
                log.record(word)
                second.record((notification.object as? AnyRequestOperation).map { ObjectIdentifier($0) })
                if word == "finish" {
                    first.record(notification.userInfo?[NotificationMonitor.errorKey] as? RequestError)
                }
            }
        }
        defer { for observer in observers { center.removeObserver(observer) } }
        let server = StubServer.held()
        let manager = server.manager(monitors: [NotificationMonitor(center: center)])
        let operation = manager.operation(.stub("a"))
        manager.enqueue(operation)
        let exchange = try await server.answered()
        operation.suspend()
        operation.resume()
        exchange.finish(RequestError(.connectionLost, "cut"))
        #expect(await log.wait(count: 4) == ["start", "suspend", "resume", "finish"])
        #expect(second.events.allSatisfy { $0 == ObjectIdentifier(operation) })
        #expect(await first.wait().first??.code == .connectionLost)
    }

    @Test func aSuccessHasNoErrorAndRetriesPostNoStart() async throws {
        let center = NotificationCenter()
        let log = EventLog<String>()
        let observers = [
            center.addObserver(forName: .requestOperationDidStart, object: nil, queue: nil) { _ in log.record("start")
            },
            center.addObserver(forName: .requestOperationDidFinish, object: nil, queue: nil) {
                log.record("finish \($0.userInfo?.count ?? 0)")
            },
        ]
        defer { for observer in observers { center.removeObserver(observer) } }
        let isFirst = Locked(true)
        let server = StubServer { exchange in
            let fails = isFirst.withLock { isFirst in
                defer { isFirst = false }
                return isFirst
            }
            exchange.answer(fails ? 503 : 200)
        }
        let manager = server.manager(monitors: [NotificationMonitor(center: center)]) {
            $0.retries = RetryPolicy(maxRetries: 1, baseDelay: .zero)
        }
        try await manager.enqueue(.stub("a")).response()
        #expect(await log.wait(count: 2) == ["start", "finish 0"])
        #expect(server.exchanges.count == 2)
    }
}
