// The cases of `chain` and `fanout`.
import Convoy
import Foundation

/// The subjects that run a graph.
enum GraphSubject: String, CaseIterable {
    case convoyTyped = "convoy-typed"
    case convoyPlain = "convoy-plain"
    case operationQueue = "operationqueue"
}

/// Runs a chain of `count` links.
func measureChain(_ spec: CaseSpec) async throws -> Measurement {
    switch GraphSubject(rawValue: spec.subject) {
    case .convoyTyped:
        await measureConvoy(spec) { manager in
            var links = [manager.operation(Stub.request(0))]
            for index in 1..<spec.count { links.append(manager.operation(after: links[index - 1], next(index))) }
            return links
        }
    case .convoyPlain:
        await measureConvoy(spec) { manager in
            let links = (0..<spec.count).map { manager.operation(Stub.request($0)) }
            for index in links.indices.dropFirst() { links[index].addDependency(links[index - 1]) }
            return links
        }
    case .operationQueue:
        await measureBare(spec) { last in
            let links = (1..<spec.count).map { _ in NoOpOperation() } + [last]
            for index in links.indices.dropFirst() { links[index].addDependency(links[index - 1]) }
            return links
        }
    case nil: throw BenchmarkError("there is no subject \(spec.subject)")
    }
}

/// Runs a root, `count` dependents and a join.
func measureFanout(_ spec: CaseSpec) async throws -> Measurement {
    switch GraphSubject(rawValue: spec.subject) {
    case .convoyTyped:
        await measureConvoy(spec) { manager in
            let root = manager.operation(Stub.request(0))
            let dependents = (1...spec.count).map { manager.operation(after: root, next($0)) }
            let join: RequestOperation<Data> = manager.operation(after: dependents) { Stub.request($0.count) }
            return [root] + dependents + [join]
        }
    case .convoyPlain:
        await measureConvoy(spec) { manager in
            let root = manager.operation(Stub.request(0))
            let dependents = (1...spec.count).map { manager.operation(Stub.request($0)) }
            let join = manager.operation(Stub.request(spec.count))
            for dependent in dependents {
                dependent.addDependency(root)
                join.addDependency(dependent)
            }
            return [root] + dependents + [join]
        }
    case .operationQueue:
        await measureBare(spec) { join in
            let root = NoOpOperation()
            let dependents = (0..<spec.count).map { _ in NoOpOperation() }
            for dependent in dependents {
                dependent.addDependency(root)
                join.addDependency(dependent)
            }
            return [root] + dependents + [join]
        }
    case nil: throw BenchmarkError("there is no subject \(spec.subject)")
    }
}

/// Builds a link's request from the previous response.
private func next(_ index: Int) -> @Sendable (Response<Data>) throws -> Request<Data> {
    { answer in
        guard answer.value.count == 2 else { throw BenchmarkError("the answer before had \(answer.value.count) bytes") }
        return Stub.request(index)
    }
}

private func measureConvoy(
    _ spec: CaseSpec, making: (RequestManager) -> [RequestOperation<Data>]
) async -> Measurement {
    let manager = Stub.makeManager(limit: spec.concurrency)
    let tally = Tally()
    let watch = Stopwatch()
    let operations = making(manager)
    operations.last?.onFinish { _ in tally.add() }
    manager.enqueue(contentsOf: operations)
    await tally.reached(1)
    let reading = watch.read()
    for operation in operations {
        switch operation.result {
        case .success: break
        case .failure(let error): tally.note("\(error)")
        case nil: tally.note("an operation has no result after the last one had")
        }
    }
    return measurement(spec, reading, tally)
}

private func measureBare(_ spec: CaseSpec, making: (_ last: NoOpOperation) -> [NoOpOperation]) async -> Measurement {
    let queue = OperationQueue()
    queue.maxConcurrentOperationCount = spec.concurrency
    let tally = Tally()
    let watch = Stopwatch()
    // The array retains all operations until the end, because swift-corelibs-foundation has unretained pointers to
    // dependents.
    let operations = making(NoOpOperation { tally.add() })
    for operation in operations { queue.addOperation(operation) }
    await tally.reached(1)
    let reading = watch.read()
    for operation in operations where !operation.isFinished {
        tally.note("an operation had not finished when the last one had")
    }
    return measurement(spec, reading, tally)
}

private func measurement(_ spec: CaseSpec, _ reading: Stopwatch.Reading, _ tally: Tally) -> Measurement {
    var result = Measurement(spec)
    result.add(reading)
    result.add(tally)
    return result
}
