// Domains under which the public registers names. No cookie may apply to all names below such a domain.

/// The domains that cookies must not be set for: top-level domains, and a table of well-known suffixes of two labels.
///
/// This is not the Public Suffix List, which has about ten thousand entries and changes every week. The table has the
/// suffixes that a client is likely to meet. Below a suffix that the table lacks, a host may set a cookie that its
/// siblings receive, as in any client without a list (RFC 6265bis, section 8.9).
enum PublicSuffixes {
    /// Whether a domain, in lower case, is known as a public suffix.
    static func contains(_ domain: some StringProtocol) -> Bool {
        guard domain.utf8.contains(UInt8(ascii: ".")) else { return true }
        return table.contains(String(domain))
    }

    /// The registered domain of a host.
    ///
    /// If the host is a public suffix or not a name, the result is the host itself.
    ///
    /// Cookies of two hosts can interact only if both hosts have the same registered domain. A suffix of three labels
    /// would break this rule, because its parent domain could have a cookie. So the table contains none.
    ///
    /// - Complexity: O(*n*) for *n* bytes.
    static func site(of host: String) -> String {
        let (bytes, dot) = (host.utf8, UInt8(ascii: "."))
        guard CookieDomain.isHostName(host), let last = bytes.lastIndex(of: dot),
            let second = bytes[..<last].lastIndex(of: dot)
        else { return host }
        let pair = host[bytes.index(after: second)...]
        guard contains(pair) else { return String(pair) }
        return bytes[..<second].lastIndex(of: dot).map { String(host[bytes.index(after: $0)...]) } ?? host
    }

    /// The suffixes of registries, grouped by top-level domain, then those of companies that give each customer a host.
    static let table: Set<String> = Set(
        """
        co.uk org.uk me.uk ltd.uk plc.uk net.uk ac.uk gov.uk nhs.uk police.uk
        com.au net.au org.au edu.au gov.au id.au asn.au co.nz net.nz org.nz ac.nz govt.nz
        co.jp ne.jp or.jp ac.jp go.jp ad.jp co.kr or.kr ne.kr go.kr ac.kr re.kr
        com.cn net.cn org.cn gov.cn edu.cn ac.cn com.tw org.tw net.tw edu.tw gov.tw com.hk org.hk net.hk edu.hk gov.hk
        com.sg net.sg org.sg edu.sg gov.sg com.my net.my org.my gov.my com.ph net.ph org.ph gov.ph
        co.in net.in org.in firm.in gen.in ac.in edu.in gov.in nic.in com.pk
        co.id or.id web.id ac.id go.id co.th or.th ac.th go.th in.th com.vn net.vn org.vn edu.vn gov.vn
        com.br net.br org.br gov.br edu.br com.mx net.mx org.mx gob.mx edu.mx com.ar net.ar org.ar gob.ar edu.ar
        com.co net.co org.co edu.co gov.co com.pe com.ve com.ec com.uy
        com.tr net.tr org.tr edu.tr gov.tr co.il org.il net.il ac.il gov.il com.sa com.eg
        co.za org.za net.za ac.za gov.za web.za com.ng co.ke or.ke
        com.pl net.pl org.pl edu.pl gov.pl waw.pl com.ua net.ua org.ua edu.ua gov.ua kiev.ua com.ru msk.ru spb.ru
        com.es org.es com.pt com.gr com.ro com.fr asso.fr gouv.fr co.at or.at gv.at ac.at co.hu co.it gov.it edu.it
        uk.com us.com eu.com de.com co.com us.org eu.org
        github.io githubusercontent.com gitlab.io bitbucket.io readthedocs.io herokuapp.com netlify.app vercel.app
        vercel.dev now.sh pages.dev workers.dev r2.dev trycloudflare.com web.app firebaseapp.com appspot.com run.app
        translate.goog blogspot.com azurewebsites.net azurestaticapps.net cloudapp.net cloudfront.net
        elasticbeanstalk.com fly.dev deno.dev onrender.com ondigitalocean.app streamlit.app framer.app glitch.me
        ngrok.io repl.co myshopify.com wixsite.com duckdns.org dyndns.org ddns.net no-ip.org
        """.split(whereSeparator: \.isWhitespace).map(String.init))
}
