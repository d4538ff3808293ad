import Foundation
import Testing

/// Compares the tables of queues and locks in `ThreadsAndLocks.md` with the sources.
@Suite struct LockTests {
    private static let locks: Set = [
        "Locked", "Mutex", "NSLock", "NSRecursiveLock", "NSCondition", "NSConditionLock", "Atomic", "pthread_mutex_t",
        "os_unfair_lock_s",
    ]

    /// The types that own a lock or an atomic value, each with the files that declare the lock or the value.
    private static func owners(_ texts: [(path: String, text: String)]) -> [String: Set<String>] {
        var owners: [String: Set<String>] = [:]
        for (path, text) in texts {
            let code = SwiftDeclarations(text)
            for (index, token) in code.tokens.enumerated() where locks.contains(token.text) {
                let before = index > 0 ? code.tokens[index - 1].text : ""
                let after = index + 1 < code.tokens.count ? code.tokens[index + 1].text : ""
                guard before != "struct", after == "(" || after == "<" || after == "?" || before == "=" || before == ":"
                else { continue }
                let context = code.contexts[code.context[index]].joined(separator: ".")
                // A lock outside of types belongs to the type after which the file is named.
                let file = path.split(separator: "/").last?.dropLast(".swift".count) ?? ""
                owners[context.isEmpty ? String(file) : context, default: []].insert(path)
            }
        }
        return owners
    }

    /// The types that the table of locks names.
    private static func documented(_ page: String) -> Set<String> {
        let section = page.components(separatedBy: "\n## Locks\n").dropFirst().first ?? ""
        let table = section.components(separatedBy: "\n## ")[0]
        let rows = table.split(separator: "\n").filter { $0.hasPrefix("| ") }
        return Set(
            rows.flatMap { row in
                let cell = row.split(separator: "|").first ?? ""
                return cell.split(separator: "`", omittingEmptySubsequences: false).enumerated()
                    .filter { $0.offset % 2 == 1 }.map { String($0.element) }
            })
    }

    @Test func everyTypeThatOwnsALockIsInTheTableAndNoOther() {
        let owners = Self.owners(LibrarySources.texts)
        let documented = Self.documented(LibrarySources.page("ThreadsAndLocks"))
        for (owner, paths) in owners.sorted(by: { $0.key < $1.key }) where !documented.contains(owner) {
            Issue.record(
                "\(owner) has a lock (\(paths.sorted().joined(separator: ", "))), and the table of locks has not")
        }
        #expect(documented.subtracting(owners.keys).sorted() == [])
    }

    /// The search reads a label up to its first interpolation.
    ///
    /// It also finds the names of threads.
    @Test func everyQueueWithALabelIsInTheTableAndNoOther() {
        let labels = Set(
            LibrarySources.texts.flatMap { _, text in
                text.matches(of: #/(?:label: |name = |_thread\()"(convoy\.[a-z.-]*[a-z])/#).map { String($0.output.1) }
            })
        let page = LibrarySources.page("ThreadsAndLocks").components(separatedBy: "\n## Locks\n")[0]
        let documented = Set(page.matches(of: #/`(convoy\.[a-z.-]*[a-z])`/#).map { String($0.output.1) })
        #expect(labels.count > 5)
        #expect(labels.symmetricDifference(documented).sorted() == [])
    }

    @Test func aLockIsFoundWhereverATypeHasIt() {
        let text = """
            final class Holder {
                let state: Locked<Int>
                struct Inner { let lock = NSLock() }
                // Locked(1), "Mutex(1)"
            }
            extension Other { func a() { let seen = Locked(false) } }
            private typealias System = pthread_mutex_t
            struct Plain { var locked = false }
            """
        #expect(
            Self.owners([("Low/Holding.swift", text)]).keys.sorted() == ["Holder", "Holder.Inner", "Holding", "Other"])
    }

    @Test func theTableNamesTheTypesOfItsFirstColumn() {
        let page =
            "\n## Queues\n| `Queue` | x |\n\n## Locks\n\n| lock | guards |\n|---|---|\n| `A`, `B.C` | `D` |\n\n## More\n| `E` | x |"
        #expect(Self.documented(page) == ["A", "B.C"])
    }
}
