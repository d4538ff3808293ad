// A large value that is handed on by reference.

/// A value in an object of its own: a copy of it retains that object, and a change copies the object first when others have it.
///
/// For values with many fields, or with a field whose size only another library knows, such as `URL`: copying one of them
/// calls a function for each field.
struct CopyOnWrite<Value: Sendable>: @unchecked Sendable {
    // @unchecked: `box` is changed only while this is its only owner.
    private final class Box {
        @exclusivity(unchecked) var value: Value

        init(_ value: consuming Value) { self.value = value }
    }

    private var box: Box

    init(_ value: consuming Value) { box = Box(value) }

    var value: Value {
        @inline(__always) _read { yield box.value }
        @inline(__always) _modify {
            if !isKnownUniquelyReferenced(&box) { box = Box(box.value) }
            yield &box.value
        }
    }
}

extension CopyOnWrite: Equatable where Value: Equatable {
    static func == (left: Self, right: Self) -> Bool { left.box === right.box || left.value == right.value }
}

extension CopyOnWrite: Hashable where Value: Hashable {
    func hash(into hasher: inout Hasher) { hasher.combine(value) }
}
