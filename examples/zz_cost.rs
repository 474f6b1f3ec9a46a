//! scratch
use quotient::{Attributes, Governor};
fn cpu() -> u64 {
    let t = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
}
fn best(n: u64, mut f: impl FnMut()) -> f64 {
    (0..9)
        .map(|_| {
            let s = cpu();
            for _ in 0..n {
                f()
            }
            (cpu() - s) as f64 / n as f64
        })
        .fold(f64::MAX, f64::min)
}
fn main() {
    let rt = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    rt.block_on(async {
        let g = Governor::builder().workers(1).init_sql("CREATE RESOURCE GROUP bi TO (user='bi') WITH ('concurrency_limit'='8','big_query_scan_rows_limit'='1000000000000000'); CREATE RESOURCE GROUP free TO (user='f') WITH ('cpu_weight'='4'); CREATE RESOURCE GROUP el TO (user='el') WITH ('big_query_elapsed_second_limit'='1000')").build().unwrap();
        let bi = Attributes::new().user("bi"); let free = Attributes::new().user("f"); let el = Attributes::new().user("el"); let fp = Attributes::new().user("bi").fingerprint(7);
        let q = g.admit(&bi).await.unwrap();
        println!("query.record_scan_rows {:.1} ns", best(3_000_000, || q.record_scan_rows(std::hint::black_box(1))));
        println!("query.record_scan_bytes {:.1} ns", best(3_000_000, || q.record_scan_bytes(std::hint::black_box(1))));
        q.run(async { println!("record_scan_rows (current task) {:.1} ns", best(3_000_000, || quotient::record_scan_rows(std::hint::black_box(1)))); }).await.unwrap();
        drop(q);
        for (w, a) in [("limited", &bi), ("plain", &free), ("elapsed", &el), ("fingerprint", &fp)] {
            println!("try_admit+drop {w} {:.0} ns", best(200_000, || drop(g.try_admit(a).unwrap())));
        }
        let mut b = f64::MAX; for _ in 0..9 { let s = cpu(); for _ in 0..100_000 { drop(g.admit(&bi).await.unwrap()); } b = b.min((cpu() - s) as f64 / 1e5); }
        println!("admit.await+drop {b:.0} ns");
    });
}
