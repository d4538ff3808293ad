// A check of the tables for the end of every PostgreSQL test.
import Foundation
import Testing

@testable import ConvoyPostgres
@testable import ConvoyQueue

/// Checks the invariants of the tables.
func checkPostgresRules(_ address: String) async throws {
    let rules = [
        "counts": """
        SELECT count(*), string_agg(c::text || j::text, E'\\n') FROM (SELECT kind, state, sum(count) AS n FROM convoy_counts GROUP BY 1, 2) AS c
        FULL JOIN (SELECT kind, state, count(*) AS n FROM convoy_jobs GROUP BY 1, 2) AS j USING (kind, state)
        WHERE coalesce(c.n, 0) <> coalesce(j.n, 0)
        """,
        "owners":
            "SELECT count(*), string_agg(convoy_jobs::text, E'\\n') FROM convoy_jobs WHERE (state = 2) <> (owner IS NOT NULL)",
        "holds": """
        SELECT count(*), string_agg(k::text || ARRAY(SELECT ROW(o.position, o.id, o.state)::text FROM convoy_jobs AS o
            WHERE o.group_name = k.group_name OR o.unique_key = k.unique_key OR o.id IN (
                SELECT needed FROM convoy_needs AS n WHERE n.position = k.position))::text, E'\\n')
        FROM convoy_jobs AS k WHERE state < 4 AND (
            needs <> (SELECT count(DISTINCT n.needed) FROM convoy_needs AS n JOIN convoy_jobs AS o ON o.id = n.needed
                WHERE n.position = k.position AND o.state <> 4)
            OR is_behind_group <> EXISTS (SELECT 1 FROM convoy_jobs AS o WHERE o.group_name = k.group_name
                AND o.state < 4 AND o.position < k.position)
            OR is_behind_key <> EXISTS (SELECT 1 FROM convoy_jobs AS o WHERE o.unique_key = k.unique_key
                AND o.state < 4 AND o.position < k.position)
            OR state < 2 AND (state = 1) <> (needs > 0 OR is_behind_group OR is_behind_key))
        """,
        "cancelled": """
        SELECT count(*), string_agg(j::text || o::text, E'\\n') FROM convoy_needs AS n JOIN convoy_jobs AS o ON o.id = n.needed
        JOIN convoy_jobs AS j ON j.position = n.position WHERE o.state = 6 AND j.state IN (0, 1, 2, 3, 5)
        """,
        "parts": """
        SELECT (SELECT count(*) FROM convoy_jobs FULL JOIN convoy_contents AS c USING (position)
                WHERE id IS NULL OR method IS NULL)
            + (SELECT count(*) FROM convoy_jobs FULL JOIN convoy_results AS r USING (position)
                WHERE id IS NULL OR has_result <> (r.header_fields IS NOT NULL))
            + (SELECT count(*) FROM convoy_needs LEFT JOIN convoy_jobs USING (position) WHERE id IS NULL), NULL
        """,
    ]
    let broken = try await offPool {
        let connection = try PostgresConnection(address, within: .seconds(60))
        return try rules.mapValues {
            let rows = try connection.run($0, within: .seconds(60))
            return (count: try rows.int(0, 0) ?? -1, rows: try rows.text(0, 1) ?? "")
        }
    }
    for (rule, found) in broken { #expect(found.count == 0, "\(rule): \(found.rows)") }
}
