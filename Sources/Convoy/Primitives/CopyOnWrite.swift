// A large value in an object, which is copied only when a shared value changes.

/// For values with many fields or another library's, such as `URL`: copying this one only retains the object.
package struct CopyOnWrite<Value: Sendable>: @unchecked Sendable {
    // @unchecked: the object is changed only while this value is its only owner.
    private final class Box {
        @exclusivity(unchecked) var value: Value

        init(_ value: () -> Value) { self.value = value() }
    }

    private var box: Box

    package init(_ value: @autoclosure () -> Value) { box = Box(value) }

    package var value: Value {
        @inline(__always) _read { yield box.value }
        @inline(__always) _modify {
            if !isKnownUniquelyReferenced(&box) { box = Box { [box] in box.value } }
            yield &box.value
        }
    }
}

extension CopyOnWrite: Equatable where Value: Equatable {
    package static func == (left: Self, right: Self) -> Bool { left.box === right.box || left.value == right.value }
}

extension CopyOnWrite: Hashable where Value: Hashable {
    package func hash(into hasher: inout Hasher) { hasher.combine(value) }
}
