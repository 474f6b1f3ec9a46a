//! A group, and a query in it: `cargo run --example quickstart`

use quotient::{Attributes, Governor};

#[tokio::main]
pub(crate) async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let governor = Governor::builder().build()?;
    governor
        .execute("CREATE RESOURCE GROUP bi TO (user='bi') WITH ('cpu_core_limit'='3')")
        .await?;

    let query = governor.admit(&Attributes::new().user("bi")).await?;
    let answer = query.run(async { (1..=6).product::<u32>() }).await?;
    println!("{answer}, by {} in {:?}", query.group(), query.usage().cpu);
    Ok(())
}
